package topic

import "testing"

// The hashes are Java's, the partitions those that Kafka puts them in.
func TestCoordinatorPartition(t *testing.T) {
	for _, c := range []struct {
		id   string
		hash int32
		want int
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"my-txn", -1061187895, 45},
		{"transactional-id", 510590431, 31},
		{"my-group", -1906497762, 12},
		{"grüße", 98768023, 23},
		{"日本語", 25921943, 43},
		{"𝄞clef", 463595828, 28},
		{"polygenelubricants", -2147483648, 0},
	} {
		if got := CoordinatorPartition(c.id, 50); javaHash(c.id) != c.hash || got != c.want {
			t.Errorf("%q has hash %d and partition %d, want %d and %d", c.id, javaHash(c.id), got, c.hash, c.want)
		}
	}
}
