package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/overlay"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// recalled is what journal, rescue and tail of a directory hold after a crash,
// or while another process works in it.
type recalled struct {
	journal *journal.Contents // nil: none in use
	rescue  *journal.Contents // nil: none there
	slots   map[journal.Key][]overlay.Piece
	ends    map[journal.Key]int64 // where the journal ends
	frames  map[journal.Key][]journal.RescueFrame
	rescued map[journal.Key]bool
}

// recall reads what memory left in a directory. It changes nothing.
//
// Errors: ErrJournalMissing, ErrTailMissing if the manifest says that one is in
// use; those of journal.Read and tail.ReadSlots.
//
// With live set the directory may belong to a running store, which overwrites
// what it no longer needs: then the bytes are read into memory.
func recall(fsys vfs.FS, dir string, s memoryState, live bool) (*recalled, error) {
	for try := 1; ; try++ {
		r, err := recallOnce(fsys, dir, s)
		if err != nil || !live {
			return r, err
		}
		same, err := r.load()
		if err = errors.Join(err, r.close()); err != nil || same {
			return r, err
		}
		if try == recallTries {
			return nil, fmt.Errorf("read the journal of %s: %w", dir, journal.ErrBusy)
		}
	}
}

// recallTries bounds how often a directory is read again that another process
// works in.
const recallTries = 16

func recallOnce(fsys vfs.FS, dir string, s memoryState) (*recalled, error) {
	r := &recalled{slots: map[journal.Key][]overlay.Piece{}, ends: map[journal.Key]int64{},
		frames: map[journal.Key][]journal.RescueFrame{}, rescued: map[journal.Key]bool{}}
	err := r.recallRescue(fsys, dir)
	if err == nil && s.journal {
		err = r.recallJournal(fsys, dir, s.store)
	}
	if err == nil && s.tail {
		err = r.recallSlots(fsys, dir, s.store)
	}
	if errors.Is(err, journal.ErrNewerFormat) || errors.Is(err, tail.ErrNewerFormat) {
		err = fmt.Errorf("%w: %w; use a newer one", ErrNewerFormat, err)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *recalled) recallRescue(fsys vfs.FS, dir string) error {
	c, err := journal.ReadRescue(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.rescue = c
	if err := r.add(c); err != nil {
		return err
	}
	for key := range r.frames {
		r.rescued[key] = true
	}
	return nil
}

func (r *recalled) recallJournal(fsys vfs.FS, dir string, store [16]byte) error {
	c, err := journal.Read(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrJournalMissing, err)
	}
	if err != nil {
		return err
	}
	r.journal = c
	if store != ([16]byte{}) && c.Store != store {
		return fmt.Errorf("%w; what lies there is of another one", ErrJournalMissing)
	}
	return r.add(c)
}

// add enters the frames of a journal behind what is there.
func (r *recalled) add(c *journal.Contents) error {
	all, err := c.Fold()
	if err != nil {
		return err
	}
	for key, folded := range all {
		r.ends[key] = folded.Next
		for _, f := range folded.Frames {
			r.frames[key] = append(r.frames[key], journal.RescueFrame{Frame: f, Data: c.ReaderAt(f)})
		}
	}
	return nil
}

func (r *recalled) recallSlots(fsys vfs.FS, dir string, store [16]byte) error {
	place, err := fsys.Place(dir)
	if err != nil {
		return err
	}
	slots, err := tail.ReadSlots(fsys, dir, place.Boot)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrTailMissing, err)
	}
	if err != nil {
		return err
	}
	of, err := tail.ReadStore(fsys, dir)
	if err == nil && store != ([16]byte{}) && of != [8]byte(store[:8]) {
		err = fmt.Errorf("%w; what lies there is of another one", ErrTailMissing)
	}
	if err != nil {
		return err
	}
	for _, s := range slots {
		key := journal.Key{Topic: s.Topic, Partition: s.Partition}
		r.slots[key] = append(r.slots[key], overlay.Piece{Segment: s.Segment, Pos: s.Pos, Length: int64(len(s.Bytes)),
			First: s.BaseOffset, Next: s.NextOffset, Source: bytes.NewReader(s.Bytes), Certain: s.SameBoot})
	}
	return nil
}

// slotFrames are the slots of a partition as frames, to be set aside: those that
// hold what was acknowledged at DurabilityOS, since the machine has not stopped.
func (r *recalled) slotFrames(key journal.Key) []journal.RescueFrame {
	var frames []journal.RescueFrame
	for _, p := range r.slots[key] {
		if p.Certain {
			frames = append(frames, journal.RescueFrame{Data: p.Source, Frame: journal.Frame{Topic: key.Topic, Partition: key.Partition,
				Kind: journal.KindBytes, Segment: p.Segment, Pos: p.Pos, Length: p.Length, First: p.First, Next: p.Next}})
		}
	}
	return frames
}

// pieces are what is recalled of a partition, in order.
func (r *recalled) pieces(key journal.Key) []overlay.Piece {
	pieces := slices.Clone(r.slots[key])
	for _, f := range r.frames[key] {
		if f.Kind == journal.KindBytes { // else they are in the segment
			pieces = append(pieces, overlay.Piece{Segment: f.Segment, Pos: f.Pos, Length: f.Length,
				First: f.First, Next: f.Next, Source: f.Data, Certain: true})
		}
	}
	slices.SortStableFunc(pieces, func(a, b overlay.Piece) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Pos, b.Pos))
	})
	return pieces
}

// load reads the bytes of all frames into memory; false if they may have been
// overwritten meanwhile.
func (r *recalled) load() (same bool, err error) {
	for _, frames := range r.frames {
		for i := range frames {
			if frames[i].Kind != journal.KindBytes {
				continue
			}
			b := make([]byte, frames[i].Length)
			if _, err := frames[i].Data.ReadAt(b, 0); err != nil && err != io.EOF {
				return false, err
			}
			frames[i].Data = bytes.NewReader(b)
		}
	}
	if r.journal == nil {
		return true, nil
	}
	return r.journal.Current()
}

// apply tells a log what is recalled of it.
func (r *recalled) apply(o *log.Options, s memoryState, level log.Durability) {
	if r == nil {
		return
	}
	key := journal.Key{Topic: o.TopicID, Partition: o.Partition.Index}
	o.Pieces = slices.DeleteFunc(r.pieces(key), func(p overlay.Piece) bool { return p.Next <= o.Points.LogStart })
	for _, f := range r.frames[key] {
		if f.Kind == journal.KindReference && f.Next > o.Points.LogStart {
			o.References = append(o.References, log.Reference{Segment: f.Segment, Pos: f.Pos, First: f.First, CRC: f.CRC})
		}
	}
	o.Journaled, o.JournalEnd = s.journal && level == log.DurabilityFsync, r.ends[key]
}

func (r *recalled) close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, c := range []*journal.Contents{r.journal, r.rescue} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// settleRecalled ends recovery: what is in the segments now is forgotten, what
// belongs to partitions that refused is set aside, and the files are ready for
// new appends.
func (c *Catalog) settleRecalled(r *recalled) error {
	var lost []journal.RescueFrame
	for _, p := range c.all() {
		if p.log == nil {
			key := c.keyOf(p.Partition)
			lost = append(append(lost, r.frames[key]...), r.slotFrames(key)...)
		}
	}
	var err error
	switch {
	case len(lost) > 0:
		err = journal.WriteRescue(c.fs, c.dir, lost)
	case r.rescue != nil:
		err = journal.RemoveRescue(c.fs, c.dir)
	}
	if err != nil {
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	if s := c.manifest.memory; (s.journal || s.tail) && s.durability != c.durability() {
		s.durability = c.durability()
		if err := c.commit(c.manifest.withMemory(s)); err != nil {
			return err
		}
	}
	if err := c.removeUnused(); err != nil {
		return err
	}
	if c.backing == nil { // appends go straight into the segments now
		return c.dropMemory()
	}
	return c.backing.resume()
}

// removeUnused removes a journal or tail that the manifest does not name, and
// unfinished ones: somebody died while it came into being or went, and nothing
// in it counts. Else it would stay, perhaps for ever.
func (c *Catalog) removeUnused() error {
	const unfinished = ".tmp"
	s := c.manifest.memory
	names := []string{journal.Name + unfinished, tail.FileName + unfinished}
	if !s.journal {
		names = append(names, journal.Name)
	}
	if !s.tail {
		names = append(names, tail.FileName)
	}
	removed := false
	for _, name := range names {
		err := c.fs.Remove(filepath.Join(c.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if !removed {
		return nil
	}
	return c.fs.SyncDir(c.dir)
}

// dropMemory removes journal and tail whose contents are in the segments.
func (c *Catalog) dropMemory() error {
	s := c.manifest.memory
	if !s.journal && !s.tail {
		return nil
	}
	if err := c.commit(c.manifest.withMemory(memoryState{})); err != nil {
		return err
	}
	var err error
	if s.journal {
		err = journal.Remove(c.fs, c.dir)
	}
	if s.tail {
		err = errors.Join(err, removeFile(c.fs, filepath.Join(c.dir, tail.FileName)))
	}
	return err
}

// dropRescued forgets what was set aside of a partition that has it in its
// segments now.
func (c *Catalog) dropRescued(r *recalled, tp topic.Partition) error {
	key := c.keyOf(tp)
	if !r.rescued[key] {
		return nil
	}
	var frames []journal.RescueFrame
	for other := range r.rescued {
		if other != key {
			frames = append(frames, r.frames[other]...)
		}
	}
	if len(frames) == 0 {
		return journal.RemoveRescue(c.fs, c.dir)
	}
	return journal.WriteRescue(c.fs, c.dir, frames)
}

// rescue sets aside, durably, what the journal holds of partitions that cannot
// write it into their segments, beside what was set aside before.
func (c *Catalog) rescue(lost []topic.Partition) error {
	if len(lost) == 0 {
		return nil
	}
	r, err := recall(c.fs, c.dir, memoryState{journal: true}, false)
	if err != nil {
		return err
	}
	var frames []journal.RescueFrame
	for key := range r.rescued {
		frames = append(frames, r.frames[key]...)
	}
	for _, tp := range lost {
		if key := c.keyOf(tp); !r.rescued[key] {
			frames = append(frames, r.frames[key]...)
		}
	}
	return errors.Join(journal.WriteRescue(c.fs, c.dir, frames), r.close())
}

// removeFile removes a file at the root, durably. It is no error if there is
// none.
func removeFile(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// dropRescue removes what was set aside of partitions that are gone: all that
// are there were closed with everything in their segments.
func (c *Catalog) dropRescue() error {
	_, err := c.fs.Stat(filepath.Join(c.dir, journal.RescueName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, journal.RemoveRescue(c.fs, c.dir))
}

// inMotion tells whether an error of a read-only opening may come from another
// process that writes: journal, tail and segments were read one after the other.
func (c *Catalog) inMotion(err error) bool {
	_, foreign := errors.AsType[*log.ForeignWriterError](err)
	damaged, _ := errors.AsType[*tail.SlotError](err)
	return foreign || damaged != nil || errors.Is(err, journal.ErrBusy) || errors.Is(err, ErrJournalMissing) || errors.Is(err, ErrTailMissing)
}
