package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// backing is what appends of all logs go through: it implements log.Backing.
// Journal and tail come into being with the first append that needs them, so a
// store that only reads has neither.
type backing struct {
	c    *Catalog
	pool *tail.Pool

	mu      sync.Mutex // taken after changeMu, held over files
	journal *journal.Journal
	slots   *tail.Slots
	refused bool // the file system takes no mapped tail
}

// newBacking makes the backing of a catalog; nil if appends go straight into
// the segments.
func newBacking(c *Catalog) *backing {
	if c.o.Direct || c.o.ReadOnly {
		return nil
	}
	return &backing{c: c, pool: tail.NewPool(c.o.MemoryBytes)}
}

// Pool implements log.Backing.
func (b *backing) Pool() *tail.Pool { return b.pool }

// Journal implements log.Backing.
func (b *backing) Journal() (*journal.Journal, error) {
	if j := b.running(); j != nil {
		return j, nil
	}
	b.c.changeMu.Lock()
	defer b.c.changeMu.Unlock()
	if err := b.c.changeable(); err != nil {
		return nil, err
	}
	if err := b.startJournal(); err != nil {
		return nil, fmt.Errorf("start the journal: %w%s", segment.NoSpace(err), advice(err))
	}
	return b.running(), nil
}

// Help implements log.Backing.
func (b *backing) Help() { b.c.Work() }

// FreeJournal implements log.Backing.
func (b *backing) FreeJournal() { b.c.tryFreeJournal(context.Background()) }

func (b *backing) running() *journal.Journal {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal
}

// startJournal makes the journal ready, and known to whoever opens the
// directory after a crash, before anything is in it. changeMu is held, or the
// catalog is not open yet.
func (b *backing) startJournal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal != nil {
		return nil
	}
	s := b.c.manifest.memory.named()
	o := journal.Options{FS: b.c.fs, Dir: b.c.dir, Bytes: b.c.o.JournalBytes, Manual: b.c.o.Manual, Full: b.c.journalFull, Store: s.store}
	j, err := journal.Start(o)
	if err != nil {
		return err
	}
	if !s.journal || s.store != b.c.manifest.memory.store {
		s.journal, s.durability = true, b.c.durability()
		if err := b.c.commit(b.c.manifest.withMemory(s)); err != nil {
			return errors.Join(err, j.Close())
		}
	}
	b.journal = j
	return nil
}

// named is the state with a name for this use of journal and tail.
func (s memoryState) named() memoryState {
	if s.store == ([16]byte{}) {
		binary.LittleEndian.PutUint64(s.store[:], rand.Uint64())
		binary.LittleEndian.PutUint64(s.store[8:], rand.Uint64())
	}
	return s
}

// Starting tells whether an append might have to wait for what goes on now: for
// journal or tail to come into being, or for room in the journal. It is for
// simulations.
func (c *Catalog) Starting() bool {
	b := c.backing
	if b == nil {
		return false
	}
	if !b.mu.TryLock() {
		return true
	}
	j, ready := b.journal, b.journal != nil && (b.slots != nil || b.refused)
	b.mu.Unlock()
	if j != nil && j.IsStuck() {
		return true
	}
	if ready {
		return false
	}
	if !c.changeMu.TryLock() {
		return true
	}
	c.changeMu.Unlock()
	return false
}

// Slots implements log.Backing.
func (b *backing) Slots() (*tail.Slots, error) {
	b.mu.Lock()
	slots, refused := b.slots, b.refused
	b.mu.Unlock()
	if slots != nil || refused {
		return slots, nil
	}
	b.c.changeMu.Lock()
	defer b.c.changeMu.Unlock()
	if err := b.c.changeable(); err != nil {
		return nil, err
	}
	if err := b.openSlots(); err != nil {
		return nil, fmt.Errorf("make the mapped tail: %w%s", segment.NoSpace(err), advice(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slots, nil
}

// openSlots makes the mapped tail ready, as startJournal the journal. Where
// mappings cannot be trusted there is none, and where they end with the machine
// or container an event says so.
func (b *backing) openSlots() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slots != nil || b.refused {
		return nil
	}
	place, err := b.c.fs.Place(b.c.dir)
	if err != nil {
		return err
	}
	if place.Kind == vfs.PlaceRemote {
		b.refused = true
		b.c.event(Event{Kind: EventNoTail, File: place.Name})
		return nil
	}
	if place.Kind == vfs.PlaceVolatile {
		b.c.event(Event{Kind: EventVolatile, File: place.Name})
	}
	s := b.c.manifest.memory.named()
	slots, err := tail.OpenSlots(b.c.fs, b.c.dir, tail.SlotsOptions{Bytes: b.c.o.TailBytes, SlotBytes: slotBytes(b.c.o.TailBytes), Boot: place.Boot, Store: [8]byte(s.store[:8])})
	if err != nil {
		return err
	}
	if !s.tail || s.store != b.c.manifest.memory.store {
		s.tail, s.durability = true, b.c.durability()
		if err := b.c.commit(b.c.manifest.withMemory(s)); err != nil {
			return errors.Join(err, slots.Close(false))
		}
	}
	b.slots = slots
	return nil
}

// slotBytes is the size of a slot: a small tail has smaller ones, so that a few
// partitions find room in it.
func slotBytes(tailBytes int64) int64 {
	return min(max(tailBytes/16&^(4<<10-1), 16<<10), 1<<20)
}

// resume takes over the files that a crash left, once everything in them is in
// the segments and durable: from here on they say nothing about old appends.
func (b *backing) resume() error {
	s := b.c.manifest.memory
	if s.journal {
		if err := b.startJournal(); err != nil {
			return err
		}
	}
	if s.tail {
		return b.openSlots()
	}
	return nil
}

// end removes journal and tail of a store whose logs are all closed cleanly and
// whose points are durable. whole is false if a log is not: then they stay, as
// after a crash.
func (b *backing) end(whole bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.journal != nil {
		err = b.journal.Close()
	}
	if b.slots != nil {
		// Of a partition that refuses they may have what is nowhere else.
		whole = whole && b.slots.Stats().Taken == 0
		err = errors.Join(err, b.slots.Close(false))
	}
	if err != nil || !whole {
		return err
	}
	return b.c.dropMemory()
}

// reclaim gives the slots back that an abandoned log of a partition left taken.
func (b *backing) reclaim(key journal.Key) {
	if b == nil {
		return
	}
	b.mu.Lock()
	slots := b.slots
	b.mu.Unlock()
	if slots != nil {
		slots.Reclaim(key.Topic, key.Partition)
	}
}

// recall reads what journal and tail hold of partitions that are not open,
// while the store runs.
func (b *backing) recall() (*recalled, error) {
	if b == nil {
		return nil, nil
	}
	b.mu.Lock()
	s := memoryState{journal: b.journal != nil, tail: b.slots != nil, durability: b.c.durability()}
	b.mu.Unlock()
	return recall(b.c.fs, b.c.dir, s, true)
}

// durability is the level of topics that say nothing else.
func (c *Catalog) durability() log.Durability {
	if c.o.Durability == log.DurabilityDefault {
		return log.DurabilityFsync
	}
	return c.o.Durability
}
