package main

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
)

// memory is what journal and tail of the current log directory hold.
type memory struct {
	root string
	*catalog.Memory

	fs   vfs.FS // of the current partition, with that laid over its segments
	held []catalog.Held
}

// beginMemory reads what the memory of a log directory holds. What is wrong with
// it is told where its files are shown.
func (d *dumper) beginMemory(root string) {
	if d.memory.root == root {
		return
	}
	d.memory = memory{root: root}
	if m, err := catalog.ReadMemory(d.fs, root); err == nil {
		d.memory.Memory = m
	}
}

// layMemory shows the segments of a partition, in dir, as they are once recovery
// has written what the memory holds.
func (d *dumper) layMemory(dir string, tp topic.Partition) {
	d.memory.fs, d.memory.held = d.memory.Over(d.fs, dir, tp)
}

// segments is where segments are read from.
func (d *dumper) segments() vfs.FS {
	if d.memory.fs != nil {
		return d.memory.fs
	}
	return d.fs
}

// heldOf tells which bytes of a segment file are not in it, or not only.
func (d *dumper) heldOf(path string) {
	n, ok := segment.ParseName(filepath.Base(path))
	if !ok || n.Suffix != segment.SuffixNone {
		return
	}
	for _, h := range d.memory.held {
		if h.Segment != n.Offset {
			continue
		}
		d.out.begin("held")
		d.out.string("held_by", h.Source)
		d.out.int("pos", h.Pos)
		d.out.int("bytes", h.Length)
		d.out.int("base_offset", h.First)
		d.out.int("last_offset", h.Next-1)
		d.out.end()
	}
}

// topicNames are the names of topics by what stands for them in journal and tail.
func (d *dumper) topicNames(root string) map[[16]byte]string {
	names := map[[16]byte]string{}
	info, err := catalog.ReadManifest(d.fs, root)
	if err != nil {
		return names
	}
	for i := range info.Topics {
		names[info.Topics[i].MemoryID()] = info.Topics[i].Name
	}
	return names
}

// partitionName names a partition of journal or tail: by the id where the manifest
// does not know the topic any more.
func partitionName(names map[[16]byte]string, id [16]byte, index int32) string {
	name, known := names[id]
	if !known {
		name = hex.EncodeToString(id[:])
	}
	return name + "-" + strconv.Itoa(int(index))
}

// journalFile shows oncelog.journal: the frames of all whole runs, in the order of
// publishing.
func (d *dumper) journalFile(path string) error { return d.frames(path, journal.Read) }

// rescueFile shows oncelog.rescue.
func (d *dumper) rescueFile(path string) error { return d.frames(path, journal.ReadRescue) }

func (d *dumper) frames(path string, read func(vfs.FS, string) (*journal.Contents, error)) error {
	root := filepath.Dir(path)
	c, err := read(d.fs, root)
	d.out.file(path)
	if errors.Is(err, journal.ErrDamaged) {
		d.damage(damageMemory, 0, 0, err.Error())
		return nil
	}
	if err != nil {
		return cannotLook(path, err)
	}
	defer c.Close()
	names := d.topicNames(root)
	for i := range c.Frames {
		f := &c.Frames[i]
		d.out.begin("frame")
		d.out.string("partition", partitionName(names, f.Topic, f.Partition))
		d.out.string("frame", f.Kind.String())
		d.out.int("segment", f.Segment)
		d.out.int("pos", f.Pos)
		d.out.int("bytes", f.Length)
		d.out.int("base_offset", f.First)
		d.out.int("next_offset", f.Next)
		d.out.end()
	}
	if c.DroppedRun != nil {
		d.tail("torn", c.DroppedRun.Pos, 0, "run "+strconv.FormatUint(c.DroppedRun.Sequence, 10)+" was begun and is not whole: it was never acknowledged")
	}
	d.out.begin("summary")
	d.out.int("runs", int64(c.Runs))
	d.out.int("frames", int64(len(c.Frames)))
	d.out.end()
	return nil
}

// tailFile shows oncelog.tail: the slots that hold batches.
func (d *dumper) tailFile(path string) error {
	root := filepath.Dir(path)
	place, err := d.fs.Place(root)
	if err != nil {
		return cannotLook(path, err)
	}
	slots, err := tail.ReadSlots(d.fs, root, place.Boot)
	d.out.file(path)
	names := d.topicNames(root)
	for i := range slots {
		s := &slots[i]
		d.out.begin("slot")
		d.out.int("slot", int64(s.Number))
		d.out.string("partition", partitionName(names, s.Topic, s.Partition))
		d.out.int("segment", s.Segment)
		d.out.int("pos", s.Pos)
		d.out.int("bytes", int64(len(s.Bytes)))
		d.out.int("batches", int64(s.Batches))
		d.out.int("base_offset", s.BaseOffset)
		d.out.int("next_offset", s.NextOffset)
		d.out.bool("same_boot", s.SameBoot)
		d.out.end()
	}
	if err != nil {
		if catalog.IsDamagedMemory(err) {
			d.damage(damageMemory, 0, 0, err.Error())
			return nil
		}
		return cannotLook(path, err)
	}
	d.out.begin("summary")
	d.out.int("slots", int64(len(slots)))
	d.out.end()
	return nil
}

// manifestFile shows oncelog.manifest.
func (d *dumper) manifestFile(path string) error {
	m, err := catalog.ReadManifest(d.fs, filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return cannotLook(path, err)
	}
	d.out.file(path)
	if errors.Is(err, catalog.ErrManifest) {
		d.damage(damageMemory, 0, 0, err.Error())
		return nil
	}
	if err != nil {
		return cannotLook(path, err)
	}
	for i := range m.Topics {
		t := &m.Topics[i]
		d.out.begin("topic")
		d.out.string("topic", t.Name)
		d.out.string("topic_id", topicIDText(t.ID))
		d.out.int("partitions", int64(len(t.Partitions)))
		d.out.bool("foreign", t.Foreign)
		d.out.bool("stored", t.Stored)
		d.out.string("durability", t.Config.Durability.String())
		d.out.string("cleanup", t.Config.Cleanup.String())
		d.out.int("retention_ms", t.Config.RetentionAge.Milliseconds())
		d.out.int("retention_bytes", t.Config.RetentionBytes)
		d.out.int("segment_bytes", t.Config.SegmentBytes)
		d.out.end()
	}
	for _, name := range m.Deletions {
		d.out.begin("deletion")
		d.out.string("topic", name)
		d.out.end()
	}
	d.out.begin("in_use")
	d.out.bool("journal", m.Journal)
	d.out.bool("tail", m.Tail)
	d.out.string("durability", m.Durability.String())
	d.out.end()
	return nil
}
