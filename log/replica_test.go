package log

import (
	"errors"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
)

// TestReplicaEpochs: no batch of an append may carry an older leader epoch than
// the log or the batches before it; those that carry none say nothing.
func TestReplicaEpochs(t *testing.T) {
	for _, c := range []struct {
		name    string
		epochs  []int32
		refused bool
		latest  int32
	}{
		{"same", []int32{5, 5}, false, 5},
		{"newer", []int32{5, 6, 9}, false, 9},
		{"older", []int32{4}, true, 5},
		{"older behind one", []int32{5, 4}, true, 5},
		{"older behind a newer one", []int32{7, 6}, true, 5},
		{"none", []int32{-1, -1}, false, 5},
		{"none before", []int32{-1, 6}, false, 6},
		{"none behind", []int32{6, -1}, false, 6},
		{"older behind none", []int32{-1, 3}, true, 5},
		{"older than what stands before none", []int32{7, -1, 6}, true, 5},
	} {
		b := newBed(t, Config{})
		if err := b.l.BeginEpoch(5); err != nil {
			t.Fatal(err)
		}
		b.append(plain(1, "x"))
		var raw []byte
		for i, epoch := range c.epochs {
			v := plain(1, "y")
			v.Stamp(int64(1+i), epoch)
			raw = append(raw, v...)
		}
		_, err := b.l.AppendReplica(t.Context(), raw, ReplicaOptions{})
		if refused := errors.Is(err, ErrStaleLeaderEpoch); refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", c.name, err)
		}
		want := int64(1 + len(c.epochs))
		if c.refused {
			want = 1
		}
		if end := b.l.Frontiers().LogEnd; end != want {
			t.Errorf("%s: the log ends at %d, want %d", c.name, end, want)
		}
		if epochs := b.l.Epochs(); epochs[len(epochs)-1].Epoch != c.latest || epochs[0] != (checkpoint.EpochEntry{Epoch: 5}) {
			t.Errorf("%s: epochs %v, want the last to be %d", c.name, epochs, c.latest)
		}
	}
}
