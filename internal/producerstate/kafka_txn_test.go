package producerstate

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// TestAbortedEqualKafkasIndex: the transactions that Apply completes with an
// abort are, entry by entry and last stable offset included, those in the
// .txnindex files that Kafka wrote. Compaction keeps entries of markers it has
// removed, so there the replay may lack some; and where the head of the log is
// gone, entries of the first segment left may begin below it.
func TestAbortedEqualKafkasIndex(t *testing.T) {
	const entrySize = 34
	type aborted struct{ id, first, last, lastStable int64 }
	compared, empty := 0, 0
	for _, k := range kafkaFixtures(t) {
		t.Run(k.name, func(t *testing.T) {
			k.t = t
			var want []aborted
			for _, path := range k.files(".txnindex") {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for ; len(b) >= entrySize; b = b[entrySize:] {
					field := func(pos int) int64 { return int64(binary.BigEndian.Uint64(b[pos:])) }
					want = append(want, aborted{field(2), field(10), field(18), field(26)})
				}
			}
			table := New(Options{})
			if first := baseOf(t, k.files(".log")[0]); k.snapshots()[first] != nil {
				var err error
				if table, err = LoadSnapshot(Options{}, k.snapshots()[first], 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			k.batches(func(h *batch.Header, m *batch.Marker) {
				c, ok := table.Apply(h, m, 0)
				if m != nil && !ok {
					empty++
				}
				if !ok || c.Commit {
					return
				}
				got := aborted{c.ProducerID, c.First, c.Last, c.LastStable}
				for k.compacted() && len(want) > 0 && want[0].last < got.last {
					want = want[1:]
				}
				if len(want) == 0 || got != want[0] {
					t.Fatalf("aborted %+v, the index goes on with %+v", got, want[:min(1, len(want))])
				}
				want = want[1:]
				compared++
			})
			if len(want) > 0 && !k.compacted() {
				t.Errorf("the index also has %+v", want)
			}
		})
	}
	t.Logf("compared %d aborted transactions; %d markers ended nothing", compared, empty)
	if compared < 100 {
		t.Errorf("compared %d aborted transactions only", compared)
	}
}
