package catalog

import (
	"bytes"
	"context"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// TestReplicaRunInSlots appends runs of many small batches at level OS, each of
// which takes a descriptor of its own in the slot.
func TestReplicaRunInSlots(t *testing.T) {
	o := on(newMem(t))
	o.SegmentBytes = 1 << 20
	c := mustOpen(t, o)
	mustCreate(t, c, "t", TopicConfig{Partitions: 1, Durability: log.DurabilityOS})
	l, err := c.Partition(at("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for offset := int64(0); offset < 10_000; {
		var raw []byte
		for range 1 + offset%41 {
			b := record("v")
			b.Stamp(offset, 0)
			raw, offset = append(raw, b...), offset+1
		}
		if _, err := l.AppendReplica(context.Background(), raw, log.ReplicaOptions{}); err != nil {
			t.Fatalf("%d bytes before offset %d: %v", len(raw), offset, err)
		}
		all = append(all, raw...)
	}
	var stored []byte
	for next := int64(0); next < l.Frontiers().LogEnd; {
		f, err := l.Read(next, log.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored, next = append(stored, f.Bytes()...), f.NextOffset()
		f.Close()
	}
	if !bytes.Equal(stored, all) {
		t.Errorf("%d bytes are stored, others than the %d of %d batches", len(stored), len(all), len(all)/batch.HeaderSize)
	}
}
