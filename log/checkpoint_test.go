package log

import "testing"

// TestPointsBeforeRecovery: whoever loads a log that was not closed cleanly, and
// closes it again, knows no more to be on the device than before.
func TestPointsBeforeRecovery(t *testing.T) {
	for _, c := range []struct {
		name     string
		readOnly bool
		clean    bool
		point    int64 // that is recorded
		want     int64
	}{
		{"unclean", false, false, 0, 0},
		{"unclean, some of it synced", false, false, 3, 3},
		{"read only", true, false, 3, 3},
		{"closed cleanly", false, true, 5, 5},
	} {
		b := newBed(t, Config{Durability: DurabilityOS})
		for range 5 {
			b.append(plain(1, "x"))
		}
		if c.clean {
			if _, err := b.l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_ = b.l.Abandon()
		b.o.Clean, b.o.ReadOnly, b.o.Points = c.clean, c.readOnly, Points{RecoveryPoint: c.point}
		l, err := Load(b.o)
		if err != nil {
			t.Fatal(err)
		}
		if p := l.Points(); p.RecoveryPoint != c.want {
			t.Errorf("%s: loaded: %+v, want %d", c.name, p, c.want)
		}
		if p, err := l.Close(t.Context()); err != nil || p.RecoveryPoint != c.want {
			t.Errorf("%s: closed: %+v, %v, want %d", c.name, p, err, c.want)
		}
	}
}
