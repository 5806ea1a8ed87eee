package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// placed is a batch at an offset.
func (m *machine) placed(offset int64, b batch.Batch) batch.Batch {
	b = slices.Clone(b)
	b.Stamp(offset, 0)
	return b
}

// emptied is what compaction leaves of a batch whose records are all gone: its
// header, offsets and sequences included.
func emptied(b batch.Batch) batch.Batch {
	e := slices.Clone(b[:batch.HeaderSize])
	binary.BigEndian.PutUint32(e[8:], batch.HeaderSize-12) // batchLength
	binary.BigEndian.PutUint32(e[57:], 0)                  // record count
	binary.BigEndian.PutUint32(e[17:], crc32.Checksum(e[21:], crc32.MakeTable(crc32.Castagnoli)))
	return e
}

// foreign is a directory as Kafka's cleaner may leave it: each segment is a
// list of batches. Indexes are missing: Kafka's own are compared elsewhere.
func foreign(t *testing.T, segments map[int64][]batch.Batch) *machine {
	m := newMachine(t, small)
	m.kill()
	for name := range m.files() {
		m.remove(name)
	}
	m.o.OwnOnly = false
	for base, batches := range segments {
		var content []byte
		for _, b := range batches {
			content = append(content, b...)
		}
		m.write(fmt.Sprintf("%020d.log", base), content)
	}
	m.ok(m.mem.SyncDir("/d"))
	return m
}

// seen are base offset and last offset of all that is read from an offset on.
func (m *machine) seen(from int64) (offsets [][2]int64) {
	m.t.Helper()
	for {
		f, err := m.l.Read(from, ReadOptions{BytesMax: 300})
		m.ok(err)
		for b := range f.Batches() {
			offsets = append(offsets, [2]int64{b.BaseOffset(), b.LastOffset()})
		}
		next := f.NextOffset()
		f.Close()
		if next == from {
			return offsets
		}
		from = next
	}
}

// TestCompactedSegments loads segments with gaps inside and between, batches
// without records, control batches without records, and an empty segment.
func TestCompactedSegments(t *testing.T) {
	p, q := batch.Producer{ID: 7, Epoch: 2}, batch.Producer{ID: 8}
	m := &machine{}
	marker := batch.Batch(batch.AppendMarker(nil, batch.Marker{Producer: q, CoordinatorEpoch: 3, Timestamp: epoch2023}))
	open := m.placed(61, transactional(q, 0, 1))
	m = foreign(t, map[int64][]batch.Batch{
		0:   {m.placed(3, plain(2, "a")), m.placed(17, emptied(idempotent(p, 4, 5)))},
		40:  {},
		60:  {open, emptied(m.placed(70, marker)), m.placed(80, marker), m.placed(81, plain(1, "b"))},
		100: {m.placed(100, emptied(transactional(q, 1, 3))), m.placed(120, plain(2, "c"))},
	})
	want := [][2]int64{{3, 4}, {17, 21}, {61, 61}, {70, 70}, {80, 80}, {81, 81}, {100, 102}, {120, 121}}
	check := func() {
		t.Helper()
		for from := range int64(122) {
			i := slices.IndexFunc(want, func(w [2]int64) bool { return w[1] >= from })
			if got := m.seen(from); !slices.Equal(got, want[i:]) {
				t.Fatalf("from %d: %v, want %v", from, got, want[i:])
			}
		}
		// A marker without its record means nothing; a batch without records
		// tells its sequences, and opens a transaction.
		aborted, err := m.l.Aborted(0, 122)
		if wanted := []index.AbortedTxn{{ProducerID: 8, First: 61, Last: 80, LastStable: 81}}; err != nil || !slices.Equal(aborted, wanted) {
			t.Errorf("aborted %+v, %v", aborted, err)
		}
		states := []state{{7, 2, 8, 21, 4, -1, 1_700_000_000_004, -1}, {8, 0, 3, 102, 2, 3, 1_700_000_000_002, 100}}
		if got := m.producers(); !slices.Equal(got, states) {
			t.Errorf("producers %+v, want %+v", got, states)
		}
		if f := m.l.Frontiers(); f != (Frontiers{0, 100, 122, 122, 122}) {
			t.Errorf("frontiers %+v", f)
		}
	}
	for range 2 {
		m.ok(m.open())
		check()
		m.ok(m.close())
	}
	m.ok(m.open())
	check()
	a, err := m.l.Append(t.Context(), idempotent(p, 4, 5), AppendOptions{})
	if err != nil || !a.Duplicate || a.BaseOffset != 17 {
		t.Errorf("a batch that compaction emptied is %+v, %v, want a duplicate at 17", a, err)
	}
}

// TestSparseOffsets: offsets that are 2^31 and more apart lie in segments of
// their own, and are read, found and continued there.
func TestSparseOffsets(t *testing.T) {
	m := &machine{}
	far, further := int64(math.MaxInt32)+10, int64(1)<<40
	m = foreign(t, map[int64][]batch.Batch{
		0:       {m.placed(0, plain(1, "a")), m.placed(math.MaxInt32, plain(1, "b"))},
		far:     {m.placed(far+5, plain(1, "c"))},
		further: {m.placed(further, plain(3, "d"))},
	})
	want := [][2]int64{{0, 0}, {math.MaxInt32, math.MaxInt32}, {far + 5, far + 5}, {further, further + 2}}
	for range 2 {
		m.ok(m.open())
		if got := m.seen(0); !slices.Equal(got, want) {
			t.Errorf("read %v", got)
		}
		for i, from := range []int64{1, math.MaxInt32 + 1, far + 6} {
			if got := m.seen(from); !slices.Equal(got, want[i+1:]) {
				t.Errorf("from %d: %v", from, got)
			}
		}
		m.ok(m.close())
	}
	m.ok(m.open())
	if a, err := m.l.Append(t.Context(), plain(1, "e"), AppendOptions{}); err != nil || a.BaseOffset != further+3 {
		t.Errorf("appended %+v, %v", a, err)
	}
}

// TestOffsetsTooFarApart: a segment cannot hold an offset that is 2^31 from
// its base. Where a leader gave such offsets the log rolls; a file that holds
// one is refused and left alone.
func TestOffsetsTooFarApart(t *testing.T) {
	m := newMachine(t, Config{})
	wide := func(offset int64) batch.Batch { // all records but the last are compacted away
		b := m.placed(offset, plain(1, "wide"))
		binary.BigEndian.PutUint32(b[23:], math.MaxInt32) // lastOffsetDelta
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	const step = int64(math.MaxInt32) + 1
	for i := range int64(3) {
		a, err := m.l.AppendReplica(t.Context(), wide(i*step), ReplicaOptions{})
		if err != nil || a.BaseOffset != i*step || a.LastOffset != i*step+math.MaxInt32 {
			t.Fatalf("append %d: %+v, %v", i, a, err)
		}
	}
	if _, err := m.l.AppendReplica(t.Context(), slices.Concat(wide(3*step), wide(4*step)), ReplicaOptions{}); !errors.Is(err, ErrBatchTooLarge) {
		t.Errorf("two at once: %v", err)
	}
	if got := len(m.names(".log")); got != 3 {
		t.Errorf("%d segments", got)
	}
	m.ok(m.close())
	m.ok(m.open())
	if got := m.seen(step + 5); !slices.Equal(got, [][2]int64{{step, 2*step - 1}, {2 * step, 3*step - 1}}) {
		t.Errorf("read %v", got)
	}

	m = foreign(t, map[int64][]batch.Batch{0: {m.placed(0, plain(1, "a")), m.placed(1<<32, plain(1, "b"))}})
	m.ok(m.Record(t.Context(), m.o.Partition, Points{RecoveryPoint: 1<<32 + 1}))
	before := m.files()
	c := (*CorruptionError)(nil)
	if err := m.open(); !errors.As(err, &c) || !errors.Is(err, ErrUnexpectedOffset) || c.Pos != int64(len(plain(1, "a"))) {
		t.Errorf("opened with %v", err)
	}
	m.same(before)
}

// TestLegacyFormat: a log of a format before record batches is refused, not
// taken for a torn tail.
func TestLegacyFormat(t *testing.T) {
	message := make([]byte, 34)
	binary.BigEndian.PutUint32(message[8:], 22)
	message[16] = 1 // magic
	binary.BigEndian.PutUint64(message[18:], epoch2023)
	binary.BigEndian.PutUint32(message[26:], math.MaxUint32)
	binary.BigEndian.PutUint32(message[30:], math.MaxUint32)
	binary.BigEndian.PutUint32(message[12:], crc32.ChecksumIEEE(message[16:]))
	m := foreign(t, map[int64][]batch.Batch{0: {message}})
	before := m.files()
	if err := m.open(); !errors.Is(err, batch.ErrLegacyMagic) {
		t.Errorf("opened with %v", err)
	}
	m.same(before)
	message[33] ^= 1 // and what only looks like one is a torn tail
	m = foreign(t, map[int64][]batch.Batch{0: {message}})
	m.ok(m.open())
	if cuts := m.names(".cut"); len(cuts) != 1 {
		t.Errorf("kept as %v", cuts)
	}
}
