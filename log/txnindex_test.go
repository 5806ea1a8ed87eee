package log

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/index"
)

// TestTxnIndexRebuilt damages the index of aborted transactions of sealed and
// active segments, after a clean close and a crash, with and without the head
// of the log. What a reader is told stays what the log says.
func TestTxnIndexRebuilt(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, deleted := range []int{0, 1, 25} {
			origin := newMachine(t, small)
			origin.ok(origin.appendMany(59))
			origin.ok(origin.deleteRecords(origin.batches[deleted].BaseOffset()))
			origin.ok(origin.checkpoint())
			origin.ok(origin.appendMany(2))
			f := origin.l.Frontiers()
			want, err := origin.l.Aborted(f.LogStart, f.LogEnd)
			origin.ok(err)
			if clean {
				origin.ok(origin.close())
			}
			origin.kill()
			indexes := origin.names(".txnindex")
			if len(indexes) < 3 || len(want) < 3 {
				t.Fatalf("%d indexes, %d aborted", len(indexes), len(want))
			}
			for _, name := range indexes {
				whole := origin.read(name)
				for at := 0; at < len(whole); at += index.TxnEntrySize {
					// The version, and a transaction that ends before it begins.
					for _, pos := range []int{0, 1, 10, 18} {
						damaged := slices.Clone(whole)
						damaged[at+pos] ^= 0x40
						m := origin.on(origin.mem.KillClone())
						m.write(name, damaged)
						m.readsAborted(want)
						if t.Failed() {
							t.Fatalf("%s, byte %d, clean %v, %d deleted", name, at+pos, clean, deleted)
						}
					}
				}
			}
			// And with all that can be derived gone.
			m := origin.on(origin.mem.KillClone())
			for name := range m.files() {
				if strings.HasSuffix(name, "index") || deleted < 25 && strings.HasSuffix(name, ".snapshot") {
					m.remove(name)
				}
			}
			m.readsAborted(want)
		}
	}
}

// readsAborted opens the log and compares the aborted transactions, then those
// that its files tell after a clean close.
func (m *machine) readsAborted(want []index.AbortedTxn) {
	m.t.Helper()
	for range 2 {
		m.ok(m.open())
		f := m.l.Frontiers()
		got, err := m.l.Aborted(f.LogStart, f.LogEnd)
		m.ok(err)
		m.sameAborted(got, want)
		if f.LogStart == 0 {
			m.compare()
		}
		m.ok(m.close())
		m.kill()
	}
}
