package log

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/producerstate"
	"github.com/oncelog/oncelog/internal/vfs"
)

var mirrorSeed = flag.Uint64("log.seed", 0, "seed of the random tests of package log; 0: a few fixed ones")

// TestMirror feeds a second log the first one's raw batches through the
// replica's door, with random truncations of its suffix and restarts. In the
// end both hold the same bytes and the same state.
func TestMirror(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	if *mirrorSeed != 0 {
		seeds = []uint64{*mirrorSeed}
	}
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 0))
		leader := newDirectBed(t, Config{SegmentBytes: 3000, IndexIntervalBytes: 300, Durability: DurabilityOS})
		follower := newDirectBed(t, Config{SegmentBytes: 2500, IndexIntervalBytes: 250, Durability: Durability(1 + r.IntN(2))})
		follower.o.Replicated = true
		follower.reopen()
		m := mirror{t: t, r: r, leader: leader, follower: follower, next: map[int64]int32{}, open: map[int64]bool{}}
		for range 400 {
			m.step()
		}
		m.catchUp()
		m.compare()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type mirror struct {
	t                *testing.T
	r                *rand.Rand
	leader, follower *bed
	next             map[int64]int32 // sequence each producer sends next
	open             map[int64]bool  // producers with an open transaction
	epoch            int32
}

func (m *mirror) step() {
	switch n := m.r.IntN(100); {
	case n < 60:
		m.append()
	case n < 80:
		m.copy()
	case n < 88:
		m.truncate()
	case n < 92:
		m.follower.reopen()
	case n < 94:
		m.leader.reopen()
	case n < 96:
		m.epoch++
		if err := m.leader.l.BeginEpoch(m.epoch); err != nil {
			m.t.Fatal(err)
		}
	default:
		m.follower.l.AdvanceHighWatermark(m.follower.l.Frontiers().HighWatermark + int64(m.r.IntN(10)))
	}
}

func (m *mirror) append() {
	p := batch.Producer{ID: int64(m.r.IntN(6))}
	n := 1 + m.r.IntN(5)
	switch kind := m.r.IntN(10); {
	case p.ID < 2 && kind < 8:
		m.leader.append(plain(n, "plain"))
	case p.ID < 4:
		m.leader.append(idempotent(p, m.next[p.ID], n))
		m.next[p.ID] += int32(n)
	case m.open[p.ID] && kind < 5:
		m.leader.mark(p, kind < 2)
		m.open[p.ID] = false
	default:
		m.leader.append(transactional(p, m.next[p.ID], n))
		m.next[p.ID] += int32(n)
		m.open[p.ID] = true
	}
}

// copy moves one read's worth of raw batches.
func (m *mirror) copy() bool {
	end := m.follower.l.Frontiers().LogEnd
	f, err := m.leader.l.Read(end, ReadOptions{Replica: true, BytesMax: 200 + m.r.IntN(2000)})
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	if len(f.Bytes()) == 0 {
		return false
	}
	if _, err := m.follower.l.AppendReplica(m.t.Context(), f.Bytes(), ReplicaOptions{}); err != nil {
		m.t.Fatal(err)
	}
	return true
}

func (m *mirror) catchUp() {
	for m.copy() {
	}
}

// truncate cuts the follower at the start of a random batch that readers have
// not seen.
func (m *mirror) truncate() {
	f := m.follower.l.Frontiers()
	bases := slices.DeleteFunc(m.follower.read(f.HighWatermark, ReadOptions{Replica: true}), func(o int64) bool { return o < f.HighWatermark })
	if len(bases) == 0 {
		return
	}
	if err := m.follower.l.Truncate(m.t.Context(), bases[m.r.IntN(len(bases))]); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mirror) compare() {
	m.t.Helper()
	a, b := m.leader, m.follower
	if !bytes.Equal(a.raw(), b.raw()) {
		m.t.Error("the .log files differ")
	}
	if len(a.raw()) == 0 {
		m.t.Error("nothing was compared")
	}
	// The leader remembers more batches of a producer than a restart leaves,
	// so only the last counts.
	if x, y := a.producers(), b.producers(); !slices.Equal(x, y) {
		m.t.Errorf("producers differ:\n%+v\n%+v", x, y)
	}
	end := a.l.Frontiers().LogEnd
	x, errX := a.l.Aborted(0, end)
	y, errY := b.l.Aborted(0, end)
	if errX != nil || errY != nil || !slices.Equal(x, y) {
		m.t.Errorf("aborted transactions differ:\n%v %v\n%v %v", x, errX, y, errY)
	}
	if x, y := a.l.Epochs(), b.l.Epochs(); !slices.Equal(x, y) {
		m.t.Errorf("leader epochs differ:\n%v\n%v", x, y)
	}
	b.l.AdvanceHighWatermark(end)
	if x, y := a.l.Frontiers(), b.l.Frontiers(); x.LastStable != y.LastStable || x.HighWatermark != y.HighWatermark || x.LogEnd != y.LogEnd {
		m.t.Errorf("frontiers differ: %+v, %+v", x, y)
	}
}

// raw is the concatenation of the log's batches, from its files.
func (b *bed) raw() []byte {
	b.t.Helper()
	var all []byte
	for s := range b.l.Segments() {
		data, err := vfs.ReadFile(b.fs, s.Path, 1<<30)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, data[:s.Bytes]...)
	}
	return all
}

// producers are the states that a restart keeps, by id.
func (b *bed) producers() []producerstate.Info {
	all := b.l.Producers()
	for i := range all {
		all[i].Batches = min(all[i].Batches, 1)
	}
	slices.SortFunc(all, func(x, y producerstate.Info) int { return cmp.Compare(x.Producer.ID, y.Producer.ID) })
	return all
}

// TestRegions reads the raw bytes of a log through pinned regions while its
// segments are deleted.
func TestRegions(t *testing.T) {
	b := newDirectBed(t, Config{SegmentBytes: 2000, Delete: true, RetentionBytes: 1})
	for range 50 {
		b.append(plain(3, "value"))
	}
	want := b.raw()
	regions, err := b.l.Regions(0)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.l.Retain(context.Background()); err != nil || n < 2 {
		t.Fatalf("retention removed %d segments, %v", n, err)
	}
	var got []byte
	for _, r := range regions {
		part := make([]byte, r.Bytes)
		if _, err := r.ReadAt(part, 0); err != nil {
			t.Fatal(err)
		}
		got = append(got, part...)
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("regions hold %d bytes, the log %d", len(got), len(want))
	}
	if _, err := b.l.Regions(0); err == nil {
		t.Fatal("a region of deleted records was handed out")
	}
}
