package producerstate

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(s, " ", ""), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bytes as Kafka writes them, checked with an independent decoder.
const (
	goldenSnapshot = `00 01  ba c2 4b a0  00 00 00 01
		00 00 00 00 00 00 23 28  00 07  00 00 00 04  00 00 00 00 00 00 00 68  00 00 00 04
		00 00 01 8b cf e5 68 00  00 00 00 2a  ff ff ff ff ff ff ff ff`
	goldenEmpty = `00 01  48 67 4b c7  00 00 00 00`
)

func golden(t testing.TB, s string) []byte { return unhex(t, strings.ReplaceAll(s, "\t", "")) }

func TestGoldenSnapshot(t *testing.T) {
	b := golden(t, goldenSnapshot)
	want := Info{
		Producer: batch.Producer{ID: 9000, Epoch: 7}, LastSequence: 4, OffsetDelta: 4, CoordinatorEpoch: 42,
		Batches: 1, LastOffset: 104, LastTimestamp: 1700000000000, TxnFirst: batch.None,
	}
	infos, err := ReadSnapshot(b)
	if err != nil || !slices.Equal(infos, []Info{want}) {
		t.Fatalf("%+v %v, want %+v", infos, err, want)
	}
	table, err := LoadSnapshot(Options{}, b, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := table.Info(9000); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := table.AppendSnapshot([]byte("before")); !bytes.Equal(got, append([]byte("before"), b...)) {
		t.Errorf("written again: %x", got)
	}
	if got := New(Options{}).AppendSnapshot(nil); !bytes.Equal(got, golden(t, goldenEmpty)) {
		t.Errorf("empty: %x", got)
	}

	// The same state by way of the log: a batch of five and a marker.
	p := newPartition()
	p.end = 95
	id := batch.Producer{ID: 9000, Epoch: 7}
	h, m := markerBatch(99, id, true, 42)
	p.table.Apply(h, m, 0)
	last := dataBatch(100, id, 0, 5, false)
	last.MaxTimestamp = 1700000000000
	p.table.Apply(last, nil, 0)
	if got := p.table.AppendSnapshot(nil); !bytes.Equal(got, b) {
		t.Errorf("by way of the log: %x", got)
	}
}

// someSnapshot has entries of every kind.
func someSnapshot() []byte {
	p := newPartition()
	p.data(batch.Producer{ID: 1}, 0, 3, false)
	p.data(batch.Producer{ID: 2, Epoch: 4}, 7, 2, true)
	p.marker(batch.Producer{ID: 3, Epoch: 9}, false, 2)
	p.data(batch.Producer{ID: 4}, batch.None, 1, true)
	p.data(batch.Producer{ID: 5}, 0, 1, true)
	p.marker(batch.Producer{ID: 5}, true, 0)
	return p.table.AppendSnapshot(nil)
}

func TestTornSnapshot(t *testing.T) {
	b := someSnapshot()
	for n := range b {
		wantDamaged(t, b[:n], "cut")
	}
	wantDamaged(t, append(slices.Clone(b), 0), "a byte longer")
	wantDamaged(t, append(slices.Clone(b), make([]byte, snapshotEntrySize)...), "an entry longer")
}

func TestFlippedSnapshot(t *testing.T) {
	b := someSnapshot()
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		wantDamaged(t, b, "bit")
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func wantDamaged(t *testing.T, b []byte, what string) {
	t.Helper()
	if _, err := LoadSnapshot(Options{}, b, 0, 0); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("%s, %d bytes: %v", what, len(b), err)
	}
	_, err := ReadSnapshot(b)
	if damaged, ok := errors.AsType[*SnapshotError](err); !ok || damaged.Reason == "" || damaged.Pos > int64(len(b)) {
		t.Fatalf("%s, %d bytes: %v", what, len(b), err)
	}
}

// TestImplausibleSnapshot: the checksum is right, the content cannot be.
func TestImplausibleSnapshot(t *testing.T) {
	entry := golden(t, goldenSnapshot)[snapshotHeaderSize:]
	file := func(count uint32, entries ...[]byte) []byte {
		b := []byte{0, 1, 0, 0, 0, 0, byte(count >> 24), byte(count >> 16), byte(count >> 8), byte(count)}
		b = append(b, bytes.Join(entries, nil)...)
		Seal(b)
		return b
	}
	with := func(pos int, value byte) []byte {
		b := slices.Clone(entry)
		b[pos] = value
		return b
	}
	if _, err := ReadSnapshot(file(1, entry)); err != nil {
		t.Fatal(err)
	}
	wantDamaged(t, file(2, entry), "a count too large")
	wantDamaged(t, file(0, entry), "a count too small")
	wantDamaged(t, file(1<<31-1, entry), "a count that lies")
	wantDamaged(t, file(1<<32-1), "a negative count")
	wantDamaged(t, file(1, with(0, 0xff)), "a negative producer id")
	wantDamaged(t, file(1, with(14, 0xff)), "a negative last offset")
	wantDamaged(t, file(1, with(22, 0xff)), "a negative delta")
	wantDamaged(t, file(1, with(22, 1)), "a batch that begins below 0")
	b := file(1, entry)
	b[1] = 2
	wantDamaged(t, b, "a newer version")
	if _, err := LoadSnapshot(Options{}, file(2, entry, entry), 0, 0); !errors.Is(err, ErrSnapshot) {
		t.Errorf("one producer twice: %v", err)
	}
}

func TestLoadSkipsExpiredOnlyIfAsked(t *testing.T) {
	b := someSnapshot() // timestamps are 1000 + offset
	for _, c := range []struct {
		now, expiration int64
		want            int
	}{
		{now: 1 << 40, expiration: 0, want: 5},
		{now: 1100, expiration: 1000, want: 5},
		{now: 1 << 40, expiration: 1000, want: 2}, // those with an open transaction
	} {
		table, err := LoadSnapshot(Options{}, b, c.now, c.expiration)
		if err != nil {
			t.Fatal(err)
		}
		mustAudit(t, table)
		if table.Len() != c.want {
			t.Errorf("now %d, expiration %d: %d producers, want %d", c.now, c.expiration, table.Len(), c.want)
		}
		if first, ok := table.FirstUndecided(); !ok || first != 3 {
			t.Errorf("first undecided %d %v", first, ok)
		}
		// What is kept counts as seen now.
		if gone := table.Expire(c.now+9, 10); gone != 0 {
			t.Errorf("%d expired too early", gone)
		}
	}
}

// TestSnapshotOfAMovingTable: whatever happens between its pieces, a snapshot
// shows the table as it was when it began.
func TestSnapshotOfAMovingTable(t *testing.T) {
	for _, between := range []struct {
		name string
		do   func(p *partition, i int64)
	}{
		{"nothing", func(*partition, int64) {}},
		{"more batches", func(p *partition, i int64) {
			for id := range int64(300) {
				p.data(batch.Producer{ID: id * 3}, int32(i), 1, id%2 == 0)
			}
		}},
		{"new producers", func(p *partition, i int64) {
			for id := range int64(200) {
				p.data(batch.Producer{ID: 10_000 + 200*i + id}, 0, 1, false)
			}
		}},
		{"expiry of a part", func(p *partition, i int64) { p.table.ExpireSome(p.clock+1000, 1, 100) }},
		{"expiry of all", func(p *partition, i int64) { p.table.Expire(p.clock+1000, 1) }},
		{"expiry and new ones", func(p *partition, i int64) {
			p.table.ExpireSome(p.clock+1000, 1, 150)
			for id := range int64(100) {
				p.data(batch.Producer{ID: 20_000 + 100*i + id}, 0, 1, false)
			}
		}},
		{"markers", func(p *partition, i int64) {
			for id := range int64(100) {
				p.marker(batch.Producer{ID: 100*i + id, Epoch: 3}, true, 0)
			}
		}},
		{"another snapshot", func(p *partition, i int64) { p.table.AppendSnapshot(nil) }},
	} {
		t.Run(between.name, func(t *testing.T) {
			p := newPartition()
			for id := range int64(2000) {
				p.data(batch.Producer{ID: id}, 0, 1, id%5 == 0)
			}
			want := sorted(t, p.table.AppendSnapshot(nil))
			s := p.table.BeginSnapshot()
			var file []byte
			more := true
			for i := int64(0); more; i++ {
				between.do(p, i)
				file, more = s.Next(file, 130)
				if i > 100 {
					t.Fatal("no end")
				}
			}
			Seal(file)
			if got := sorted(t, file); !slices.Equal(got, want) {
				t.Errorf("%d entries, want %d, or they differ", len(got), len(want))
			}
			if file, more := s.Next(nil, 10); len(file) > 0 || more {
				t.Error("a snapshot goes on after its end")
			}
			mustAudit(t, p.table)
			p.table.BeginSnapshot().Discard()
			p.table.BeginSnapshot().Discard()
		})
	}
}

func sorted(t *testing.T, file []byte) []Info {
	t.Helper()
	infos, err := ReadSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(infos, func(a, b Info) int { return int(a.Producer.ID - b.Producer.ID) })
	return infos
}

func FuzzLoadSnapshot(f *testing.F) {
	f.Add(golden(f, goldenSnapshot), false)
	f.Add(golden(f, goldenEmpty), false)
	f.Add(someSnapshot(), true)
	b, err := os.ReadFile("../../testdata/kafka-4.1.2/txn/data/orders-0/00000000000000000172.snapshot")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= snapshotHeaderSize { // let the fuzzer past the checksum
			b = slices.Clone(b)
			Seal(b)
		}
		table, err := LoadSnapshot(Options{}, b, 1<<40, 1000)
		infos, readErr := ReadSnapshot(b)
		if readErr != nil && err == nil {
			t.Fatalf("loaded what cannot be read: %v", readErr)
		}
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		mustAudit(t, table)
		again, err := LoadSnapshot(Options{}, table.AppendSnapshot(nil), 1<<40, 0)
		if err != nil || !again.Equal(table) {
			t.Fatalf("written again: %v", err)
		}
		// Of two entries of one producer the last counts that has not expired.
		of := map[int64][]Info{}
		for _, info := range infos {
			if info.Batches == 0 { // nothing of a batch is kept
				info.LastSequence, info.OffsetDelta = batch.None, 0
			}
			of[info.Producer.ID] = append(of[info.Producer.ID], info)
		}
		for id, entries := range of {
			if got, ok := table.Info(id); ok && !slices.Contains(entries, got) {
				t.Fatalf("%+v, the file has %+v", got, entries)
			}
		}
	})
}
