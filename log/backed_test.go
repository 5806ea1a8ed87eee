package log

import (
	"testing"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
)

// room is where the appends of logs under test land: memory and a journal,
// as a store has them.
type room struct {
	fs      vfs.FS
	journal *journal.Journal
	pool    *tail.Pool
	slots   *tail.Slots
}

func (r *room) Journal() (*journal.Journal, error) { return r.journal, nil }
func (r *room) Pool() *tail.Pool                   { return r.pool }
func (r *room) Help()                              {}
func (r *room) FreeJournal()                       {}

func (r *room) Slots() (*tail.Slots, error) {
	var err error
	if r.slots == nil {
		r.slots, err = tail.OpenSlots(r.fs, "room", tail.SlotsOptions{Bytes: 256 << 10, SlotBytes: 16 << 10})
	}
	return r.slots, err
}

// back opens the log again with workers, memory and a journal behind it, until
// the test ends. Whoever counts on events must not.
func (b *bed) back() {
	b.t.Helper()
	if _, err := b.l.Close(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if err := b.fs.Mkdir("room", 0o755); err != nil {
		b.t.Fatal(err)
	}
	j, err := journal.Start(journal.Options{FS: b.fs, Dir: "room", Bytes: 8 << 20})
	if err != nil {
		b.t.Fatal(err)
	}
	w := NewWorkers(1)
	b.o.Workers, b.o.Backing, b.o.Events, b.o.Files = w, &room{fs: b.fs, journal: j, pool: tail.NewPool(8 << 20)}, nil, segment.NewFiles(100)
	b.open()
	b.t.Cleanup(func() {
		w.Close()
		_ = b.l.Abandon()
		_ = j.Close()
	})
}

// eitherWay runs a test on a log whose appends go straight into its files, and
// on one with memory and a journal.
func eitherWay(t *testing.T, c Config, test func(t *testing.T, b *bed)) {
	t.Run("files", func(t *testing.T) { test(t, newDirectBed(t, c)) })
	t.Run("journal", func(t *testing.T) {
		b := newDirectBed(t, c)
		b.back()
		test(t, b)
	})
}
