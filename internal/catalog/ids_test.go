package catalog

import (
	"errors"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// TestReserveIDs: no id is handed out twice, over restarts and crashes, and all are
// above what is there and, in a directory of Kafka's, above what its cluster gives.
func TestReserveIDs(t *testing.T) {
	mem := newMem(t)
	c := mustOpen(t, on(mem))
	take := func(n int, least, want int64) {
		t.Helper()
		if first, err := c.ReserveIDs(t.Context(), n, least); err != nil || first != want {
			t.Errorf("got %d, %v, want %d", first, err, want)
		}
	}
	take(1000, -1, 0)
	take(10, -1, 1000)
	mem = mem.CrashClone(vfs.CrashOptions{})
	c = mustOpen(t, on(mem))
	take(10, 500, 1010)
	take(10, 5000, 5001)
	if first, end := c.ReservedIDs(); first != 0 || end != 5011 {
		t.Errorf("reserved are %d to %d", first, end)
	}
	if err := c.CreateTopic(t.Context(), "t", TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = mustOpen(t, on(mem))
	take(1, -1, 5011)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReserveIDs(t.Context(), 1, -1); !errors.Is(err, log.ErrClosed) {
		t.Errorf("reserve when closed: %v", err)
	}

	mem = newMem(t)
	if err := vfs.Replace(mem, "data/"+checkpoint.MetaFile, []byte("version=1\n")); err != nil {
		t.Fatal(err)
	}
	c = mustOpen(t, on(mem))
	take(1000, 77, 1<<48)
	take(1000, -1, 1<<48+1000)
}
