package segment

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
	"github.com/oncelog/oncelog/internal/vfs"
)

// bed is the directory of a partition in memory.
type bed struct {
	testing.TB
	mem *vfs.Mem
	env *Environment
	// told are the files whose index was made anew.
	told []string
}

func newBed(t testing.TB) *bed {
	b := &bed{TB: t, mem: vfs.NewMem()}
	b.ok(b.mem.Mkdir("/d", 0o755))
	b.ok(b.mem.SyncDir("/"))
	b.env = &Environment{FS: b.mem, Dir: "/d", Rebuilt: func(file string, cause error) {
		if cause == nil {
			t.Error("an index was made anew for no reason")
		}
		b.told = append(b.told, file)
	}, Txns: func(base, size int64) (*index.Txn, error) { return index.NewTxn(base), nil }}
	return b
}

func (b *bed) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// write makes a file that is durable.
func (b *bed) write(name string, content []byte) {
	b.Helper()
	b.ok(vfs.Replace(b.mem, "/d/"+name, content))
}

func (b *bed) read(name string) []byte {
	b.Helper()
	content, err := vfs.ReadFile(b.mem, "/d/"+name, 1<<30)
	b.ok(err)
	return content
}

// files are the names in the directory, with what they hold.
func files(t testing.TB, mem *vfs.Mem) map[string]string {
	t.Helper()
	entries, err := mem.ReadDir("/d")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		content, err := vfs.ReadFile(mem, "/d/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(content)
	}
	return all
}

// record is a batch of n records at an offset; its greatest timestamp is ms.
func record(offset int64, n int, ms int64, size int) batch.Batch {
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	for range n {
		w.Add(ms, nil, bytes.Repeat([]byte{byte(offset)}, size))
	}
	bytes, err := w.Finish()
	if err != nil {
		panic(err)
	}
	b := batch.Batch(bytes)
	b.Stamp(offset, 0)
	return b
}

// history is a row of batches from a base offset on, with timestamps that go
// up and down.
func history(base int64, count int) (batches []batch.Batch) {
	for i := range count {
		batches = append(batches, record(base, i%3+1, 1000+int64(i*7%11), 20+i%7*40))
		base = batches[i].NextOffset()
	}
	return batches
}

func join(batches []batch.Batch) (all []byte) {
	for _, b := range batches {
		all = append(all, b...)
	}
	return all
}

// sealed makes a segment of the batches and seals it.
func (b *bed) sealed(base int64, interval int, batches []batch.Batch) *Segment {
	b.Helper()
	s := b.active(base, interval, batches)
	b.ok(s.EndTimes())
	b.ok(s.Trim())
	b.ok(s.Seal())
	return s
}

func (b *bed) active(base int64, interval int, batches []batch.Batch) *Segment {
	b.Helper()
	s, err := Create(b.env, base, 1<<20, interval, false, 0)
	b.ok(err)
	for _, v := range batches {
		b.append(s, v)
	}
	return s
}

func (b *bed) append(s *Segment, v batch.Batch) {
	b.Helper()
	if s.Room() < int64(len(v)) {
		b.ok(s.Extend(int64(len(v))))
	}
	b.ok(s.Write([][]byte{v[:30], v[30:]}))
	b.ok(s.Index(Entry{LastOffset: v.LastOffset(), MaxTimestamp: v.MaxTimestamp(), Size: len(v)}, 0))
	s.Publish(int64(len(v)))
}

// opened is the sealed segment of a directory as it is opened later.
func (b *bed) opened(base int64) *Segment {
	b.Helper()
	l, err := List(b.mem, "/d")
	b.ok(err)
	for _, f := range l.Segments {
		if f.Base == base {
			return OpenSealed(b.env, f)
		}
	}
	b.Fatalf("no segment %d", base)
	return nil
}

// rule is what Kafka's rule makes of batches: an entry before a batch if more
// than the interval was appended since the last one, with the last offset of
// the batch, and one of time if the greatest timestamp grew; and one of time at
// the end.
func rule(batches []batch.Batch, interval int) (offsets []index.OffsetEntry, times []index.TimeEntry) {
	since, pos := 0, int64(0)
	best, last := index.TimeEntry{Timestamp: -1}, int64(-1)
	for _, b := range batches {
		if b.MaxTimestamp() > best.Timestamp {
			best = index.TimeEntry{Timestamp: b.MaxTimestamp(), Offset: b.LastOffset()}
		}
		if since > interval {
			offsets = append(offsets, index.OffsetEntry{Offset: b.LastOffset(), Pos: pos})
			if best.Timestamp > last {
				times, last = append(times, best), best.Timestamp
			}
			since = 0
		}
		since += len(b)
		pos += int64(len(b))
	}
	if best.Timestamp > last {
		times = append(times, best)
	}
	return offsets, times
}

func offsetsOf(x *index.Offset) (all []index.OffsetEntry) {
	for i := range x.Len() {
		all = append(all, x.At(i))
	}
	return all
}

func timesOf(x *index.Time) (all []index.TimeEntry) {
	for i := range x.Len() {
		all = append(all, x.At(i))
	}
	return all
}

func (b *bed) overwrite(name string, pos int64, content []byte) {
	b.Helper()
	f, err := b.mem.OpenFile("/d/"+name, os.O_RDWR, 0)
	b.ok(err)
	_, err = f.WriteAt(content, pos)
	b.ok(err)
	b.ok(f.Sync())
	b.ok(f.Close())
}

func name(base int64, k Kind) string { return fmt.Sprintf("%020d%s", base, extensions[k]) }
