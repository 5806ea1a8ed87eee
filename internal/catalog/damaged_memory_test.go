package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
	"github.com/oncelog/oncelog/log"
)

// memoryBed is what a killed process left whose appends are in journal and tail
// only: those of a-0 and a-1 at level fsync, of b-0 and b-1 at level os.
type memoryBed struct {
	mem  *vfs.Mem
	want map[string][]string
}

func newMemoryBed(t *testing.T) memoryBed {
	t.Helper()
	b := memoryBed{newMem(t), map[string][]string{}}
	c := mustOpen(t, b.options(b.mem))
	mustCreate(t, c, "a", TopicConfig{Partitions: 2})
	mustCreate(t, c, "b", TopicConfig{Partitions: 2, Durability: log.DurabilityOS})
	for i := range 24 {
		for _, name := range []string{"a", "b"} {
			tp := at(name, int32(i%2))
			v := fmt.Sprintf("%s %d %s", tp, i, strings.Repeat("x", i*9))
			if i == 11 { // larger than what goes through the journal
				v += strings.Repeat("y", 40<<10)
			}
			mustAppend(t, c, tp, v)
			b.want[tp.String()] = append(b.want[tp.String()], v)
		}
	}
	b.mem = b.mem.KillClone()
	if err := b.mem.Remove(dataDir + "/" + LockFile); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b memoryBed) options(mem *vfs.Mem) Options {
	o := on(mem)
	o.Direct, o.SegmentBytes = false, 1<<20
	o.MemoryBytes, o.JournalBytes, o.TailBytes = 1<<20, 256<<10, 256<<10
	return o
}

// judge opens a directory that something was done to. Either everything is there,
// or it is refused with an error of a kind that says what is wrong, and nothing is
// changed; or, if the last run of the journal does not count, it is gone whole and
// told of. runs is how many values of each partition each run has, last first.
func (b memoryBed) judge(t *testing.T, mem *vfs.Mem, what string) (outcome string) {
	t.Helper()
	before := tree(t, mem, dataDir)
	o := b.options(mem)
	dropped := false
	o.Events = func(e Event) { dropped = dropped || e.Kind == EventRunDropped }
	c, err := Open(o)
	if err != nil {
		for _, kind := range []error{journal.ErrDamaged, ErrJournalMissing, ErrTailMissing, ErrNewerFormat, ErrManifest, log.ErrCorrupt} {
			if errors.Is(err, kind) {
				outcome = kind.Error()
			}
		}
		_, slot := errors.AsType[*tail.SlotError](err)
		_, format := errors.AsType[*tail.FormatError](err)
		_, other := errors.AsType[*log.ForeignWriterError](err)
		if outcome == "" && !slot && !format && !other {
			t.Errorf("%s: refused with %v, which is of no kind", what, err)
		}
		after := tree(t, mem, dataDir)
		delete(after, dataDir+"/"+LockFile)
		delete(before, dataDir+"/"+LockFile)
		sameTree(t, after, before)
		return "refused"
	}
	defer c.Close(t.Context())
	lost := 0
	for _, p := range c.all() {
		name := p.Partition.String()
		if p.err != nil {
			if !errors.Is(p.err, log.ErrCorrupt) {
				t.Errorf("%s: %s refuses with %v", what, name, p.err)
			}
			continue
		}
		got, want := values(t, c, p.Partition), b.want[name]
		switch {
		case slices.Equal(got, want):
		case len(got) < len(want) && slices.Equal(got, want[:len(got)]) && dropped && p.Topic == "a":
			lost += len(want) - len(got)
		default:
			t.Errorf("%s: %s has %d values, others than the %d that were acknowledged", what, name, len(got), len(want))
		}
	}
	if lost > 1 { // each run has one append
		t.Errorf("%s: %d appends are gone, more than the last run", what, lost)
	}
	if lost > 0 {
		return "dropped"
	}
	return "whole"
}

// TestFlippedMemory flips bytes all over journal and tail: everything in front
// and at the end of each block, and others in between.
func TestFlippedMemory(t *testing.T) {
	b := newMemoryBed(t)
	if got := b.judge(t, b.mem.KillClone(), "untouched"); got != "whole" {
		t.Fatalf("untouched: %s", got)
	}
	for _, name := range []string{journal.Name, tail.FileName} {
		content, err := vfs.ReadFile(b.mem, filepath.Join(dataDir, name), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		outcomes := map[string]int{}
		for pos := 0; pos < len(content); pos++ {
			in := pos % 4096
			if in >= 80 && in < 4096-16 && pos%211 != 0 {
				continue
			}
			if zeros := content[pos&^4095 : min(pos|4095+1, len(content))]; pos > 2*4096 && len(slices.Compact(slices.Clone(zeros))) == 1 && in != 0 {
				continue // of an empty block one byte is enough
			}
			mem := b.mem.KillClone()
			flipAt(t, mem, filepath.Join(dataDir, name), int64(pos))
			outcomes[b.judge(t, mem, fmt.Sprintf("%s flipped at %d", name, pos))]++
			if t.Failed() {
				return
			}
		}
		t.Logf("%s: %v", name, outcomes)
		if outcomes["whole"] == 0 || outcomes["refused"] == 0 || name == journal.Name && outcomes["dropped"] == 0 {
			t.Errorf("%s: outcomes %v, want some of each", name, outcomes)
		}
	}
}

func flipAt(t *testing.T, mem *vfs.Mem, name string, pos int64) {
	t.Helper()
	f, err := mem.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
}

// TestCutMemory cuts journal and tail at many lengths, and lengthens them.
func TestCutMemory(t *testing.T) {
	b := newMemoryBed(t)
	for _, name := range []string{journal.Name, tail.FileName} {
		path := filepath.Join(dataDir, name)
		info, err := b.mem.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for size := int64(0); size <= info.Size()+4096; size += 512 {
			if size == info.Size() {
				continue
			}
			mem := b.mem.KillClone()
			f, err := mem.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				err = errors.Join(f.Truncate(size), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.judge(t, mem, fmt.Sprintf("%s cut to %d", name, size)); got == "dropped" {
				t.Errorf("%s cut to %d: a run is dropped", name, size)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestStrangeMemory: missing, of another directory, of a newer version.
func TestStrangeMemory(t *testing.T) {
	b, other := newMemoryBed(t), newMemoryBed(t)
	replace := func(t *testing.T, mem *vfs.Mem, name string, change func(content []byte) []byte) {
		t.Helper()
		content, err := vfs.ReadFile(other.mem, filepath.Join(dataDir, name), 1<<30)
		if err == nil {
			err = vfs.Replace(mem, filepath.Join(dataDir, name), change(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, mem *vfs.Mem)
		want error
	}{
		{"no journal", func(t *testing.T, mem *vfs.Mem) { mem.Remove(dataDir + "/" + journal.Name) }, ErrJournalMissing},
		{"no tail", func(t *testing.T, mem *vfs.Mem) { mem.Remove(dataDir + "/" + tail.FileName) }, ErrTailMissing},
		{"journal of another", func(t *testing.T, mem *vfs.Mem) {
			replace(t, mem, journal.Name, func(b []byte) []byte { return b })
		}, ErrJournalMissing},
		{"tail of another", func(t *testing.T, mem *vfs.Mem) {
			replace(t, mem, tail.FileName, func(b []byte) []byte { return b })
		}, ErrTailMissing},
		{"tail of a newer version", func(t *testing.T, mem *vfs.Mem) {
			replace(t, mem, tail.FileName, func(b []byte) []byte { b[16] = 9; return b })
		}, ErrNewerFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := b.mem.KillClone()
			c.do(t, mem)
			_, err := Open(b.options(mem))
			if !errors.Is(err, c.want) {
				t.Errorf("opens with %v, want %v", err, c.want)
			}
		})
	}
	// Of another size than the options say: read, and made anew.
	mem := b.mem.KillClone()
	o := b.options(mem)
	o.JournalBytes, o.TailBytes = 512<<10, 512<<10
	c := mustOpen(t, o)
	for name, want := range b.want {
		tp := at(name[:1], int32(name[2]-'0'))
		if got := values(t, c, tp); !slices.Equal(got, want) {
			t.Errorf("with other sizes %s has %d values, want %d", name, len(got), len(want))
		}
	}
	mustClose(t, c)
}

// A journal that failed is no matter of one partition: the error says what helps.
func TestJournalFailureAdvice(t *testing.T) {
	mem := newMem(t)
	fails := false
	o := memoryBed{}.options(mem)
	o.Log.FS = faultfs.New(mem, faultfs.Plan{Faults: []faultfs.Fault{{Effect: faultfs.Fail, Forever: true, Err: syscall.EIO,
		Kinds: []faultfs.Kind{faultfs.Sync}, Match: func(op faultfs.Op) bool { return fails && strings.HasSuffix(op.Name, journal.Name) }}}})
	c := mustOpen(t, o)
	mustCreate(t, c, "a", TopicConfig{})
	mustAppend(t, c, at("a", 0), "x")
	fails = true
	_, err := appendTo(c, at("a", 0), record("y"))
	if !errors.Is(err, log.ErrLatched) || !errors.Is(err, journal.ErrFailed) || !strings.Contains(err.Error(), "close the store and open it again") {
		t.Errorf("an append ends with %v", err)
	}
}
