package sim

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/catalog"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// foreigner is another program that worked in the directory after a crash, as
// Kafka does: it knows segments, and nothing of journal, rescue and tail. It works
// on one log at level fsync: it takes what does not check out off its end, and may
// append a batch. Its recovery points and those of logs at level os are left out:
// what it vouches for, nobody else could.
type foreigner struct {
	before *vfs.Mem // what it found
	p      *partition
	wrote  bool
	// over says that it wrote where an append of ours belongs that was safe.
	over bool
}

// meddle lets another program work after a crash.
func (h *history) meddle() {
	list := h.partitions()
	if h.foreign != nil || !h.scene.journaled() || h.scene.replicated || len(list) == 0 || !h.chance(0.1) {
		return
	}
	p := list[h.rng.IntN(len(list))]
	if p.awaits != lossNone || !h.ordered(p) || h.find(p.tp.Topic).other != nil || h.find(p.tp.Topic).maybe {
		return
	}
	mem := h.disk.mem
	before := mem.KillClone()
	if m, err := catalog.ReadManifest(mem, dir); err != nil || !m.Journal {
		return // without a journal what it writes just counts
	}
	path, pos, next := newestEnd(mem, p)
	if path == "" {
		return
	}
	f := &foreigner{before: before, p: p, wrote: h.chance(0.6)}
	file, err := mem.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = file.Truncate(pos)
	}
	if err == nil && f.wrote {
		e := h.plainBatch(p)
		e.bytes.Stamp(next, p.epoch())
		_, err = file.WriteAt(e.bytes, pos)
		f.over = next < p.powerSafe && !bytes.Equal(e.bytes, p.at(next))
	}
	if err == nil {
		err = errors.Join(file.Sync(), file.Close(), dropIndexes(mem, path))
	}
	if err != nil {
		h.fail("another program cannot work on %s: %v", p.tp, err)
	}
	h.tell("another program leaves %s at %d (byte %d of %s), wrote %t, over ours %t", p.tp, next, pos, path, f.wrote, f.over)
	h.foreign = f
	h.count.Foreign++
}

// at is the stored batch that begins at an offset, nil if none does.
func (p *partition) at(offset int64) []byte {
	if i := p.index(offset); i < len(p.log) && p.log[i].header.BaseOffset == offset {
		return p.log[i].bytes
	}
	return nil
}

// newestEnd is where what checks out ends in the newest segment of a log; "" if
// that is not all of its end, so that it would have to take whole segments away, or
// large batches that lie behind space that nobody wrote yet.
func newestEnd(mem *vfs.Mem, p *partition) (path string, pos, next int64) {
	entries, err := mem.ReadDir(filepath.Join(dir, p.tp.String()))
	if err != nil {
		return "", 0, 0
	}
	end := int64(-1)
	for _, e := range entries { // in order
		n, ok := segment.ParseName(e.Name())
		if !ok || n.Kind != segment.KindLog || n.Suffix != segment.SuffixNone {
			continue
		}
		if end >= 0 && end != n.Offset {
			return "", 0, 0
		}
		path, pos, next = filepath.Join(dir, p.tp.String(), e.Name()), 0, n.Offset
		content, err := vfs.ReadFile(mem, path, 1<<30)
		if err != nil {
			return "", 0, 0
		}
		for {
			b, err := batch.Parse(content[pos:])
			if err != nil || b.Check() != nil || b.BaseOffset() != next {
				break
			}
			pos, next = pos+int64(len(b)), b.NextOffset()
		}
		end = next
		for at := int(pos) + 1; at < len(content); at++ {
			if b, err := batch.Parse(content[at:]); err == nil && b.Check() == nil {
				return "", 0, 0
			}
		}
	}
	return path, pos, next
}

// dropIndexes removes the indexes of a segment, which it would make anew.
func dropIndexes(mem *vfs.Mem, path string) error {
	for _, k := range []segment.Kind{segment.KindOffsetIndex, segment.KindTimeIndex, segment.KindTxnIndex} {
		name, _ := segment.ParseName(filepath.Base(path))
		err := mem.Remove(filepath.Join(filepath.Dir(path), segment.FileName(name.Offset, k)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return mem.SyncDir(filepath.Dir(path))
}

// foundOut is asked when the store does not open: after another program wrote
// where ours belongs that is right, if nothing was changed. The operator then puts
// back what was there before it.
func (h *history) foundOut(err error, found *vfs.Mem) bool {
	f := h.foreign
	_, other := errors.AsType[*log.ForeignWriterError](err)
	if f == nil || !f.wrote || !other {
		return false
	}
	if !sameFiles(found, h.disk.mem, dir) {
		h.fail("the store does not open, and changed something: %v", err)
	}
	h.tell("found out: %v", err)
	h.count.Foreigners++
	before := f.before
	h.foreign = nil
	h.swap(before)
	return true
}

// overlooked fails the history if the store opened although another program wrote
// over what was safe.
func (h *history) overlooked() {
	if f := h.foreign; f != nil && f.over {
		h.fail("%s opens, and another program wrote over what was safe", f.p.tp)
	}
	h.foreign = nil
}

// sameFiles tells whether two file systems hold the same below a directory, but
// for the lock.
func sameFiles(a, b *vfs.Mem, path string) bool {
	left, errA := a.ReadDir(path)
	right, errB := b.ReadDir(path)
	if errA != nil || errB != nil || len(left) != len(right) {
		return false
	}
	for i, e := range left {
		name := filepath.Join(path, e.Name())
		switch {
		case e.Name() != right[i].Name():
			return false
		case e.IsDir():
			if !sameFiles(a, b, name) {
				return false
			}
		case !strings.HasSuffix(name, ".lock"):
			x, errX := vfs.ReadFile(a, name, 1<<30)
			y, errY := vfs.ReadFile(b, name, 1<<30)
			if errX != nil || errY != nil || !bytes.Equal(x, y) {
				return false
			}
		}
	}
	return true
}
