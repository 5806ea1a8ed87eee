package catalog

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Memory is what journal, rescue and mapped tail of a directory hold, beside its
// segments: for tools that look at the directory of a store that crashed or runs.
type Memory struct {
	manifest *manifest
	recalled *recalled
	Files    []MemoryFile
}

// MemoryFile is one of those files.
type MemoryFile struct {
	Path       string
	Runs       int // whole ones
	Frames     int
	Slots      int // in use
	Bytes      int64
	DroppedPos int64 // of a run that was begun and is not whole; -1: none
}

// ReadMemory reads it, and writes nothing; nil if the directory has no memory in
// use. It is all read into memory, since a running store overwrites what it no
// longer needs.
//
// Errors: *ManifestError, ErrNewerFormat, ErrJournalMissing, ErrTailMissing,
// journal.ErrDamaged, *tail.SlotError, those of the file system.
func ReadMemory(fsys vfs.FS, dir string) (*Memory, error) {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	r, err := recall(fsys, dir, m.memory, true)
	if err != nil {
		return nil, err
	}
	if m.memory == (memoryState{}) && r.rescue == nil {
		return nil, nil
	}
	v := &Memory{manifest: m, recalled: r}
	for name, c := range map[string]*journal.Contents{journal.Name: r.journal, journal.RescueName: r.rescue} {
		if c == nil {
			continue
		}
		f := MemoryFile{Path: filepath.Join(dir, name), Runs: c.Runs, Frames: len(c.Frames), DroppedPos: -1}
		for i := range c.Frames {
			f.Bytes += c.Frames[i].Length
		}
		if c.DroppedRun != nil {
			f.DroppedPos = c.DroppedRun.Pos
		}
		v.Files = append(v.Files, f)
	}
	if m.memory.tail {
		f := MemoryFile{Path: filepath.Join(dir, tail.FileName), DroppedPos: -1}
		for _, pieces := range r.slots {
			for _, p := range pieces {
				f.Slots, f.Bytes = f.Slots+1, f.Bytes+p.Length
			}
		}
		v.Files = append(v.Files, f)
	}
	slices.SortFunc(v.Files, func(a, b MemoryFile) int { return cmp.Compare(a.Path, b.Path) })
	return v, nil
}

// Apply tells the options of a log what the memory holds of it, as opening the
// directory would.
func (v *Memory) Apply(o *log.Options) {
	if v == nil || o.Clean && v.manifest.memory == (memoryState{}) {
		return
	}
	t, level := manifestTopic{}, v.manifest.memory.durability
	if i, found := v.manifest.find(o.Partition.Topic); found {
		t = v.manifest.topics[i]
		if t.config != nil && t.config.Durability != log.DurabilityDefault {
			level = t.config.Durability
		}
	}
	o.TopicID = memoryID(o.Partition.Topic, t.id)
	v.recalled.apply(o, v.manifest.memory, level)
}

// InUse tells whether the memory holds what the segments may lack: a mark of a
// clean stop is another program's then.
func (v *Memory) InUse() bool { return v != nil && v.manifest.memory != (memoryState{}) }

// Owners are the partitions that the memory holds something of, by name.
func (v *Memory) Owners() []topic.Partition {
	var owners []topic.Partition
	if v == nil {
		return nil
	}
	for _, t := range v.manifest.topics {
		for i := range t.partitions {
			key := journal.Key{Topic: memoryID(t.name, t.id), Partition: i}
			if len(v.recalled.frames[key])+len(v.recalled.slots[key]) > 0 {
				owners = append(owners, topic.Partition{Topic: t.name, Index: i})
			}
		}
	}
	return owners
}

// IsDamagedMemory tells whether an error of ReadMemory says that a file is not
// what it should be, rather than that it cannot be read.
func IsDamagedMemory(err error) bool {
	_, slot := errors.AsType[*tail.SlotError](err)
	_, format := errors.AsType[*tail.FormatError](err)
	return slot || format || errors.Is(err, journal.ErrDamaged) || errors.Is(err, ErrManifest) ||
		errors.Is(err, ErrJournalMissing) || errors.Is(err, ErrTailMissing)
}
