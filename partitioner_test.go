package oncelog

import (
	"context"
	"testing"
)

// Values of Kafka's own hash.
func TestMurmur2(t *testing.T) {
	for _, c := range []struct {
		key          string
		hash, masked int32
	}{
		{"21", -973932308, 1173551340},
		{"foobar", -790332482, 1357151166},
		{"abc", 479470107, 479470107},
		{"a-little-bit-long-string", -985981536, 1161502112},
		{"a-little-bit-longer-string", -1486304829, 661178819},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 2088585677},
		{"", 275646681, 275646681},
	} {
		if got := murmur2([]byte(c.key)); int32(got) != c.hash || int32(got&0x7fffffff) != c.masked {
			t.Errorf("%q: %d, want %d", c.key, int32(got), c.hash)
		}
	}
}

// Keys stay where they are, an empty one too; records without a key fill a batch
// in one partition, and all partitions get some.
func TestPartitioner(t *testing.T) {
	s, err := Open("data", Options{FS: NewMemFS()})
	if err == nil {
		err = s.CreateTopic(t.Context(), "t", TopicConfig{Partitions: 5})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	p := partitioner{store: s, sticky: map[string]*stickiness{}}
	for key, want := range map[string]int32{"foobar": 1357151166 % 5, "abc": 479470107 % 5, "": 275646681 % 5} {
		for range 2 {
			if tp, err := p.choose("t", []byte(key), 10, 100); err != nil || tp != (TopicPartition{Topic: "t", Index: want}) {
				t.Errorf("key %q goes to %v, %v, want partition %d", key, tp, err, want)
			}
		}
	}
	runs := map[int32]int{}
	var last int32 = -1
	run := 0
	for range 2000 {
		tp, err := p.choose("t", nil, 10, 100)
		if err != nil {
			t.Fatal(err)
		}
		if tp.Index == last {
			run++
			continue
		}
		if last >= 0 && run != 10 {
			t.Fatalf("%d records in a row in partition %d, want 10", run, last)
		}
		runs[tp.Index]++
		last, run = tp.Index, 1
	}
	if len(runs) != 5 {
		t.Errorf("records without a key went to partitions %v, want all 5", runs)
	}
	if _, err := p.choose("u", nil, 1, 1); err == nil {
		t.Error("an unknown topic has a partition")
	}
}
