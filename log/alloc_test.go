package log

import (
	"testing"

	"github.com/oncelog/oncelog/batch"
)

func TestNoAllocations(t *testing.T) {
	if raced {
		t.Skip("not under the race detector")
	}
	d := diskBed(t, Config{Durability: DurabilityOS, SegmentBytes: 1 << 30})
	v := idempotent(batch.Producer{ID: 7}, 0, 10)
	ctx := t.Context()
	sequence := int32(0)
	add := func() {
		batch.Retarget(v, batch.Producer{ID: 7}, sequence)
		sequence += 10
		if _, err := d.l.Append(ctx, v, AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n != 0 {
		t.Errorf("append: %v allocations", n)
	}
	read := func() {
		f, err := d.l.Read(100, ReadOptions{Isolation: ReadCommitted, BytesMax: 4096})
		if err != nil || len(f.Bytes()) == 0 {
			t.Fatal(err)
		}
		f.Close()
	}
	read()
	if n := testing.AllocsPerRun(1000, read); n != 0 {
		t.Errorf("read: %v allocations", n)
	}
	measure := func() {
		if m, err := d.l.Measure(100, ReadCommitted); err != nil || m.Bytes == 0 {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, measure); n != 0 {
		t.Errorf("measure: %v allocations", n)
	}
}
