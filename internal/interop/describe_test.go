//go:build interop

package interop

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/log"
)

// longValue is from where on the truth holds length and hash of a value.
const longValue = 200

func hexOf(b []byte) *string {
	if b == nil {
		return nil
	}
	s := hex.EncodeToString(b)
	return &s
}

// describe puts a record of b into the words of the truth.
func describe(b batch.Batch, r *batch.Record) record {
	d := record{
		Offset:      r.Offset,
		Timestamp:   r.Timestamp,
		Timestamps:  b.Timestamps().String(),
		LeaderEpoch: b.LeaderEpoch(),
		Key:         hexOf(r.Key),
	}
	if len(r.Value) > longValue {
		sum := sha256.Sum256(r.Value)
		d.ValueBytes, d.ValueSHA256 = len(r.Value), hex.EncodeToString(sum[:])
	} else {
		d.Value = hexOf(r.Value)
	}
	for key, value := range r.Headers.All() {
		k := string(key)
		d.Headers = append(d.Headers, [2]*string{&k, hexOf(value)})
	}
	return d
}

// sameRecord tells whether two descriptions are of the same record.
func sameRecord(a, b record) bool {
	same := func(p, q *string) bool { return (p == nil) == (q == nil) && (p == nil || *p == *q) }
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && a.Timestamps == b.Timestamps && a.LeaderEpoch == b.LeaderEpoch &&
		a.Committed == b.Committed && same(a.Key, b.Key) && same(a.Value, b.Value) && a.ValueBytes == b.ValueBytes && a.ValueSHA256 == b.ValueSHA256 &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y [2]*string) bool { return same(x[0], y[0]) && same(x[1], y[1]) })
}

func (r record) String() string {
	show := func(p *string) string {
		if p == nil {
			return "null"
		}
		b, _ := hex.DecodeString(*p)
		return fmt.Sprintf("%.40q", b)
	}
	return fmt.Sprintf("{offset %d ts %d %s epoch %d key %s value %s (%d %.8s) headers %d committed %v}", r.Offset, r.Timestamp, r.Timestamps,
		r.LeaderEpoch, show(r.Key), show(r.Value), r.ValueBytes, r.ValueSHA256, len(r.Headers), r.Committed)
}

// consume reads a partition from an offset to the end as a consumer does, and
// gives the records and the position after the last.
func consume(l *log.Log, from int64, isolation log.Isolation) ([]record, int64, error) {
	var all []record
	var records batch.Records
	defer records.Close()
	for offset := from; ; {
		f, err := l.Read(offset, log.ReadOptions{Isolation: isolation, BytesMax: 8 << 10})
		if err != nil {
			return nil, 0, fmt.Errorf("read at %d: %w", offset, err)
		}
		skip := newAbortedFilter(f.Aborted)
		next := offset
		for b := range f.Batches() {
			next = b.NextOffset()
			if skip.dropped(b) {
				continue
			}
			records.Reset(b)
			for records.Next() {
				if r := records.Record(); r.Offset >= offset {
					all = append(all, describe(b, r))
				}
			}
			if err := records.Err(); err != nil {
				f.Close()
				return nil, 0, fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
			}
		}
		f.Close()
		if next == offset {
			return all, offset, nil
		}
		offset = next
	}
}

// abortedFilter is the part of a read_committed consumer that drops aborted
// batches, for one answer.
type abortedFilter struct {
	pending []index.AbortedTxn // by first offset
	aborted map[int64]bool     // producer ids inside an aborted transaction
}

func newAbortedFilter(txns []index.AbortedTxn) *abortedFilter {
	return &abortedFilter{
		pending: slices.SortedFunc(slices.Values(txns), func(a, b index.AbortedTxn) int { return cmp.Compare(a.First, b.First) }),
		aborted: make(map[int64]bool),
	}
}

// dropped tells whether the consumer passes over the batch, which is to be
// asked for every batch in order. Control batches are never delivered.
func (a *abortedFilter) dropped(b batch.Batch) bool {
	for len(a.pending) > 0 && a.pending[0].First <= b.LastOffset() {
		a.aborted[a.pending[0].ProducerID] = true
		a.pending = a.pending[1:]
	}
	if b.IsControl() {
		if m, ok, _ := batch.ReadMarker(b); ok && !m.Commit {
			delete(a.aborted, b.ProducerID())
		}
		return true
	}
	return b.IsTransactional() && a.aborted[b.ProducerID()]
}

// consumeBoth reads at both levels and marks what is committed; positions are
// those after the last record at each level.
func consumeBoth(l *log.Log, from int64) (all []record, uncommitted, committed int64, err error) {
	all, uncommitted, err = consume(l, from, log.ReadUncommitted)
	if err != nil {
		return nil, 0, 0, err
	}
	seen, committed, err := consume(l, from, log.ReadCommitted)
	if err != nil {
		return nil, 0, 0, err
	}
	offsets := make(map[int64]bool)
	for _, r := range seen {
		offsets[r.Offset] = true
	}
	for i := range all {
		all[i].Committed = offsets[all[i].Offset]
		delete(offsets, all[i].Offset)
	}
	if len(offsets) > 0 {
		return nil, 0, 0, fmt.Errorf("read_committed delivers offsets %v, read_uncommitted does not", slices.Sorted(maps.Keys(offsets)))
	}
	return all, uncommitted, committed, nil
}

// compareRecords compares two lists of records and counts the equal ones.
func compareRecords(d *differences, where string, got, want []record) int {
	n := 0
	if len(got) != len(want) {
		d.addf("%s: %d records, want %d", where, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !sameRecord(got[i], want[i]) {
			d.addf("%s: record\n    %v, want\n    %v", where, got[i], want[i])
			break // what follows is mostly shifted
		}
		n++
	}
	return n
}
