package log

import (
	"bytes"
	"math"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// compare compares a log with the model, which knows all that is in it.
func (m *machine) compare() {
	m.t.Helper()
	f := m.l.Frontiers()
	if f.LogEnd != m.end() || f.LogStart != m.start[0] || f.HighWatermark > f.LogEnd || f.LastStable > f.HighWatermark {
		m.t.Errorf("frontiers %+v, the model ends at %d", f, m.end())
	}
	m.readable(f)
	var want fold
	for _, b := range m.batches {
		want.apply(b)
	}
	if got := m.producers(); !slices.Equal(got, want.sorted()) {
		m.t.Errorf("producers\n%+v, want\n%+v", got, want.sorted())
	}
	aborted, err := m.l.Aborted(f.LogStart, f.LogEnd)
	m.ok(err)
	m.sameAborted(aborted, want.aborted(f.LogStart))
	if stable := max(min(f.HighWatermark, want.firstOpen()), f.LogStart); f.HighWatermark == f.LogEnd && f.LastStable != stable {
		m.t.Errorf("last stable %d, want %d", f.LastStable, stable)
	}
	for _, b := range m.batches {
		if e := m.l.EpochFor(b.BaseOffset()); b.BaseOffset() >= f.LogStart && e != b.LeaderEpoch() {
			m.t.Errorf("epoch of %d is %d, want %d", b.BaseOffset(), e, b.LeaderEpoch())
		}
	}
	m.times(f)
}

// sameAborted compares aborted transactions. Of one that began in a segment
// that is gone, a rebuilt index may tell only what is left, or nothing, and
// take it for not open where it bounded the last stable offset.
func (m *machine) sameAborted(got, want []index.AbortedTxn) {
	m.t.Helper()
	head, found := bases(m.l)[0], 0
	for _, w := range want {
		i := slices.IndexFunc(got, func(g index.AbortedTxn) bool { return g.Last == w.Last && g.ProducerID == w.ProducerID })
		if i < 0 && w.First < head {
			continue
		}
		if i >= 0 {
			found++
			g := got[i]
			if w.First < head && g.First > w.First {
				g.First = w.First
			}
			if w.LastStable < head && g.LastStable > w.LastStable {
				g.LastStable = w.LastStable
			}
			if g == w {
				continue
			}
		}
		m.t.Errorf("%+v is not in %+v", w, got)
	}
	if found != len(got) {
		m.t.Errorf("aborted %+v, want %+v", got, want)
	}
}

// readable reads all that readers see and compares it byte for byte.
func (m *machine) readable(f Frontiers) {
	m.t.Helper()
	i := 0
	for i < len(m.batches) && m.batches[i].LastOffset() < f.LogStart {
		i++
	}
	for from := f.LogStart; from < f.HighWatermark; {
		r, err := m.l.Read(from, ReadOptions{BytesMax: 700})
		if err != nil {
			m.t.Errorf("read %d: %v", from, err)
			return
		}
		if r.NextOffset() == from {
			m.t.Errorf("nothing at %d below the high watermark %d", from, f.HighWatermark)
		}
		for b := range r.Batches() {
			if i >= len(m.batches) || !bytes.Equal(b, m.batches[i]) {
				m.t.Errorf("another batch at %d", b.BaseOffset())
			}
			i++
		}
		if from == r.NextOffset() {
			return
		}
		from = r.NextOffset()
		r.Close()
	}
}

// times looks some timestamps up.
func (m *machine) times(f Frontiers) {
	m.t.Helper()
	for ms := int64(epoch2023 - 1); ms < epoch2023+51_000; ms += 6_700 {
		want := noTimeOffset
		for _, b := range m.batches {
			if want == noTimeOffset && b.LastOffset() >= f.LogStart && b.LastOffset() < f.HighWatermark {
				var records batch.Records
				records.Reset(b)
				for records.Next() {
					if r := records.Record(); want == noTimeOffset && r.Offset >= f.LogStart && r.Timestamp >= ms {
						want = TimeOffset{Timestamp: r.Timestamp, Offset: r.Offset}
					}
				}
				records.Close()
			}
		}
		if got, err := m.l.OffsetForTime(ms, ReadUncommitted); err != nil || got != want {
			m.t.Errorf("record at %d: %+v, want %+v, %v", ms, got, want, err)
		}
	}
}

// sound lets Verify look at the files, beside an open log.
func (m *machine) sound(clean bool) {
	m.t.Helper()
	o := m.o
	var err error
	if o.Points, err = m.points(); err != nil {
		m.t.Fatal(err)
	}
	o.Clean = clean
	report, err := Verify(m.t.Context(), o, VerifyOptions{})
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		m.t.Errorf("verify: %v", err)
	}
}

// fold is what a log says of its producers, by the plainest means.
type fold struct {
	states map[int64]state
	txns   []txn
}

type state struct {
	id                        int64
	epoch                     int16
	lastSequence              int32
	lastOffset                int64
	delta                     int32
	coordinator               int32
	timestamp, transactionOff int64
}

type txn struct {
	id, first, marker int64
	aborted           bool
}

func (f *fold) apply(b batch.Batch) {
	h := b.Header()
	if h.Producer.ID < 0 {
		return
	}
	if f.states == nil {
		f.states = map[int64]state{}
	}
	s, ok := f.states[h.Producer.ID]
	if !ok {
		s = state{id: h.Producer.ID, lastSequence: -1, lastOffset: -1, coordinator: -1, transactionOff: -1}
	}
	s.epoch = h.Producer.Epoch
	if !h.IsControl() {
		s.lastSequence, s.lastOffset, s.delta, s.timestamp = h.LastSequence(), h.LastOffset(), h.LastOffsetDelta, h.MaxTimestamp
		if h.IsTransactional() && s.transactionOff < 0 {
			s.transactionOff = h.BaseOffset
			f.txns = append(f.txns, txn{id: s.id, first: h.BaseOffset, marker: -1})
		}
	} else if m, isMarker, _ := batch.ReadMarker(b); isMarker {
		for i := range f.txns {
			if t := &f.txns[i]; t.id == s.id && t.marker < 0 {
				t.marker, t.aborted = h.BaseOffset, !m.Commit
			}
		}
		s.transactionOff, s.coordinator, s.timestamp = -1, m.CoordinatorEpoch, m.Timestamp
	}
	f.states[s.id] = s
}

func (f *fold) sorted() []state {
	var all []state
	for _, s := range f.states {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b state) int { return int(a.id - b.id) })
	return all
}

func (f *fold) firstOpen() int64 {
	for _, t := range f.txns {
		if t.marker < 0 {
			return t.first
		}
	}
	return math.MaxInt64
}

// aborted are the aborted transactions that end at or above from, by their
// marker.
func (f *fold) aborted(from int64) []index.AbortedTxn {
	var all []index.AbortedTxn
	for _, t := range f.txns {
		if !t.aborted || t.marker < from {
			continue
		}
		stable := t.marker + 1
		for _, o := range f.txns {
			if o.first != t.first && o.first < t.marker && (o.marker < 0 || o.marker > t.marker) {
				stable = min(stable, o.first)
			}
		}
		all = append(all, index.AbortedTxn{ProducerID: t.id, First: t.first, Last: t.marker, LastStable: stable})
	}
	slices.SortFunc(all, func(a, b index.AbortedTxn) int { return int(a.Last - b.Last) })
	return all
}

func (m *machine) producers() []state {
	var all []state
	for _, i := range m.l.Producers() {
		all = append(all, state{i.Producer.ID, i.Producer.Epoch, i.LastSequence, i.LastOffset, i.OffsetDelta,
			i.CoordinatorEpoch, i.LastTimestamp, i.TxnFirst})
	}
	slices.SortFunc(all, func(a, b state) int { return int(a.id - b.id) })
	return all
}
