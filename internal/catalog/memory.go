package catalog

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/overlay"
	"github.com/oncelog/oncelog/internal/segment"
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

// Held is bytes of a segment file that the memory holds.
type Held struct {
	Source      string // the file that holds them
	Segment     int64  // base offset
	Pos, Length int64  // in the segment file
	First, Next int64  // offsets
}

// Over shows the files of a partition, in dir, with what the memory holds laid over
// them, and tells what that is, in order.
func (v *Memory) Over(fsys vfs.FS, dir string, tp topic.Partition) (vfs.FS, []Held) {
	if v == nil {
		return fsys, nil
	}
	i, _ := v.manifest.find(tp.Topic)
	if i == len(v.manifest.topics) || v.manifest.topics[i].name != tp.Topic {
		return fsys, nil
	}
	key := journal.Key{Topic: memoryID(tp.Topic, v.manifest.topics[i].id), Partition: tp.Index}
	pieces := v.recalled.pieces(key)
	if len(pieces) == 0 {
		return fsys, nil
	}
	framed := journal.Name
	if v.recalled.journal == nil {
		framed = journal.RescueName
	}
	var held []Held
	for _, p := range pieces {
		h := Held{framed, p.Segment, p.Pos, p.Length, p.First, p.Next}
		if slices.ContainsFunc(v.recalled.slots[key], func(s overlay.Piece) bool { return s.Segment == p.Segment && s.Pos == p.Pos }) {
			h.Source = tail.FileName
		}
		held = append(held, h)
	}
	files := overlay.Files{}
	files.Add(pieces, func(base int64) string { return filepath.Join(dir, segment.FileName(base, segment.KindLog)) })
	return overlay.View(fsys, files), held
}

// ManifestInfo is what the manifest of a directory says.
type ManifestInfo struct {
	Topics     []TopicInfo
	Deletions  []string       // topics whose directories are being removed
	Journal    bool           // the commit journal is in use
	Tail       bool           // the mapped tail is
	Durability log.Durability // meanwhile, of topics that say nothing else
}

// ReadManifest reads the manifest of a directory; fs.ErrNotExist if there is none.
// Errors: *ManifestError, ErrNewerFormat, those of the file system.
func ReadManifest(fsys vfs.FS, dir string) (*ManifestInfo, error) {
	if _, err := fsys.Stat(filepath.Join(dir, ManifestFile)); err != nil {
		return nil, err
	}
	m, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	info := &ManifestInfo{Journal: m.memory.journal, Tail: m.memory.tail, Durability: m.memory.durability}
	for _, t := range m.topics {
		i := TopicInfo{Name: t.name, ID: t.id, Stored: t.config != nil, Foreign: t.foreign}
		for n := range t.partitions {
			i.Partitions = append(i.Partitions, n)
		}
		if t.config != nil {
			i.Config = *t.config
		}
		info.Topics = append(info.Topics, i)
	}
	for _, d := range m.deletions {
		info.Deletions = append(info.Deletions, d.name)
	}
	return info, nil
}

// MemoryID is what names a topic in journal and tail.
func (i *TopicInfo) MemoryID() [16]byte { return memoryID(i.Name, i.ID) }

// IsDamagedMemory tells whether an error of ReadMemory says that a file is not
// what it should be, rather than that it cannot be read.
func IsDamagedMemory(err error) bool {
	_, slot := errors.AsType[*tail.SlotError](err)
	_, format := errors.AsType[*tail.FormatError](err)
	return slot || format || errors.Is(err, journal.ErrDamaged) || errors.Is(err, ErrManifest) ||
		errors.Is(err, ErrJournalMissing) || errors.Is(err, ErrTailMissing)
}
