package journal

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelog/oncelog/internal/vfs"
)

// plain is a member whose memory is one piece.
type plain struct {
	memory []byte
	handle *Handle
	end    int64

	durable int64 // the flusher's
}

func (p *plain) Pieces(dst [][]byte, _, from, to int64) [][]byte {
	return append(dst, p.memory[from%(1<<20):][:to-from])
}
func (p *plain) Durable(_, _, next int64) { p.durable = next }
func (p *plain) Fail(error)               {}

func (p *plain) publish(size int64) {
	p.handle.Publish(0, p.end, p.end+size, p.end, p.end+size)
	p.end += size
}

// discarding gives a journal that keeps nothing, with members.
func discarding(t testing.TB, members int) (*Journal, []*plain) {
	j := started(t, Options{Manual: true, Bytes: 8 << 20})
	j.writer.file = nullFile{j.file}
	j.file = nullFile{j.file}
	joined := make([]*plain, members)
	for i := range joined {
		joined[i] = &plain{memory: make([]byte, 2<<20)}
		joined[i].handle = j.Join([16]byte{byte(i)}, int32(i), joined[i])
	}
	return j, joined
}

// flushAndFree flushes and, without room, frees what would be checkpointed.
func flushAndFree(j *Journal) {
	for !j.TryFlush() {
		j.halves[1-j.current] = half{handles: j.halves[1-j.current].handles[:0]}
	}
	if j.pos > halvesPos+j.header.halfBytes/2 { // never leave the first half
		j.pos = halvesPos
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	j, members := discarding(t, 8)
	round := func() {
		for i, m := range members {
			for range 4 {
				m.publish(100)
			}
			m.publish(int64(5000 + i))
			m.handle.PublishLarge(0, 0, 1<<20, 0, 1, 1)
		}
		j.Waiting(1)
		flushAndFree(j)
		j.Waiting(-1)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for 48 publications and a flush", n)
	}
}

// ticketRing is the alternative to the queue under a mutex: a ring indexed by
// a ticket from one atomic counter. A publisher takes a ticket and stores its
// entry there; the flusher takes entries up to the first that is not there.
// It cannot merge, and must be as large as all that can be published unflushed.
type ticketRing struct {
	next  atomic.Uint64
	slots []ticketSlot
	_     [64]byte
	taken uint64 // the flusher's
}

type ticketSlot struct {
	full atomic.Uint64 // ticket + 1 once the entry is there
	e    entry
}

func (r *ticketRing) put(h *Handle, f *Frame) {
	ticket := r.next.Add(1) - 1
	s := &r.slots[ticket%uint64(len(r.slots))]
	s.e = entry{handle: h, frame: *f, ticket: int64(ticket)}
	s.full.Store(ticket + 1)
}

func (r *ticketRing) take(dst []entry) []entry {
	for {
		s := &r.slots[r.taken%uint64(len(r.slots))]
		if s.full.Load() != r.taken+1 {
			return dst
		}
		dst = append(dst, s.e)
		r.taken++
	}
}

// BenchmarkPublish: one log alone, whose entries merge, and 8 goroutines with a
// log each, against the ring of tickets. Every 16384 publications the flusher's
// side takes what there is, so that both keep a working set of that size.
func BenchmarkPublish(b *testing.B) {
	const round = 16 << 10
	for _, writers := range []int{1, 8} {
		for _, method := range []string{"queue", "tickets"} {
			b.Run(fmt.Sprintf("method=%s/writers=%d", method, writers), func(b *testing.B) {
				b.ReportAllocs()
				j, members := discarding(b, writers)
				ring := &ticketRing{slots: make([]ticketSlot, 2*round)}
				put := func(m *plain) { m.publish(1 << 10) }
				take := func() {
					j.flushMu.Lock()
					j.collect()
					j.used = len(j.pending)
					j.flushMu.Unlock()
				}
				if method == "tickets" {
					var taken []entry
					put = func(m *plain) {
						ring.put(m.handle, &Frame{Topic: m.handle.key.Topic, Partition: m.handle.key.Partition, Kind: KindBytes, Pos: m.end, Length: 1 << 10, First: m.end, Next: m.end + 1<<10})
						m.end += 1 << 10
					}
					take = func() { taken = ring.take(taken[:0]) }
				}
				var elapsed time.Duration
				n := 0
				for b.Loop() { // one iteration is a round of publications
					n += round
					elapsed += inParallel(members, round/writers, put)
					take()
				}
				b.ReportMetric(float64(elapsed.Nanoseconds())/float64(n), "ns/publish")
			})
		}
	}
}

// inParallel publishes so many times for each member and gives the time.
func inParallel(members []*plain, times int, put func(*plain)) time.Duration {
	begin := time.Now()
	if len(members) == 1 {
		for range times {
			put(members[0])
		}
		return time.Since(begin)
	}
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			for range times {
				put(m)
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// BenchmarkFlush makes 64 pieces of 1 KiB of 64 logs durable in one run, and
// in turn the same bytes by one write and sync of a preallocated, written file:
// raw is its median, p50 that of the journal, ratio the first by the second.
func BenchmarkFlush(b *testing.B) {
	for _, logs := range []int{1, 64} {
		b.Run(fmt.Sprintf("pieces=64/size=1024/logs=%d", logs), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(64 << 10)
			dir := b.TempDir()
			j, err := Start(Options{FS: vfs.Machine(), Dir: dir, Bytes: 64 << 20, Manual: true})
			must(b, err)
			defer j.Close()
			members := make([]*plain, logs)
			for i := range members {
				members[i] = &plain{memory: make([]byte, 2<<20)}
				members[i].handle = j.Join([16]byte{byte(i)}, int32(i), members[i])
			}
			raw := newRawFile(b, dir, 64<<20)
			defer raw.f.Close()
			var ours, theirs []time.Duration
			for b.Loop() {
				for i := range 64 {
					members[i%logs].publish(1 << 10)
				}
				begin := time.Now()
				if !j.TryFlush() {
					_, mark, _ := j.Due()
					must(b, j.Free(mark))
					must(b, j.Flush(b.Context()))
				}
				middle := time.Now()
				raw.flush(b)
				ours, theirs = append(ours, middle.Sub(begin)), append(theirs, time.Since(middle))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			p50, rawP50 := ours[len(ours)/2], theirs[len(theirs)/2]
			b.ReportMetric(float64(p50.Microseconds()), "p50-us")
			b.ReportMetric(float64(rawP50.Microseconds()), "raw-p50-us")
			b.ReportMetric(float64(p50)/float64(rawP50), "ratio")
		})
	}
}

// rawFile is overwritten in a circle, as cheap as a file system allows.
type rawFile struct {
	f    vfs.File
	size int64
	pos  int64
	b    []byte
}

func newRawFile(b *testing.B, dir string, size int64) *rawFile {
	f, err := vfs.Machine().OpenFile(dir+"/raw", os.O_RDWR|os.O_CREATE, 0o644)
	must(b, err)
	r := &rawFile{f: f, size: size, b: make([]byte, 64<<10)}
	must(b, f.Allocate(size))
	for ; r.pos < size; r.pos += int64(len(r.b)) {
		_, err := f.WriteAt(r.b, r.pos)
		must(b, err)
	}
	must(b, f.Sync())
	return r
}

func (r *rawFile) flush(b *testing.B) {
	if r.pos+int64(len(r.b)) > r.size {
		r.pos = 0
	}
	_, err := r.f.WriteAt(r.b, r.pos)
	must(b, err)
	must(b, r.f.Datasync())
	r.pos += int64(len(r.b))
}
