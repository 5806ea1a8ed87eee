package log

import (
	"errors"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// TestMeasure compares with what Read answers, from every offset, on both
// levels of isolation, with the end of the log in transactions that are open.
func TestMeasure(t *testing.T) {
	m := newMachine(t, small)
	for range 2 {
		m.ok(m.appendMany(26))
		for _, i := range []Isolation{ReadUncommitted, ReadCommitted} {
			for offset := range m.end() + 1 {
				var want Measured
				for want.Next = offset; ; {
					f, err := m.l.Read(want.Next, ReadOptions{Isolation: i, BytesMax: 500})
					m.ok(err)
					want.Bound = f.HighWatermark
					if i == ReadCommitted {
						want.Bound = f.LastStable
					}
					next := f.NextOffset()
					want.Bytes += int64(len(f.Bytes()))
					f.Close()
					if next == want.Next {
						break
					}
					want.Next = next
				}
				if got, err := m.l.Measure(offset, i); err != nil || got != want {
					t.Fatalf("%v from %d: %+v, %v; want %+v", i, offset, got, err, want)
				}
			}
		}
		m.ok(m.close())
		m.ok(m.open())
	}
	m.ok(m.deleteRecords(5))
	if _, err := m.l.Measure(4, ReadUncommitted); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("below the log start: %v", err)
	}
	m.ok(m.close())
	if _, err := m.l.Measure(5, ReadUncommitted); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestMeasureDamage: where the heads do not follow each other, Read has to
// tell, and that is said at once.
func TestMeasureDamage(t *testing.T) {
	b := newDirectBed(t, Config{})
	first := b.append(plain(1, "value"))
	b.append(plain(3, "value"))
	f, err := b.fs.OpenFile("d/"+logFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{9}, int64(len(plain(1, "value")))+batch.MagicEnd-1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.l.Measure(first.BaseOffset, ReadUncommitted); !errors.Is(err, batch.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}
