package journal

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/vfs"
)

// RescueFrame is a frame with its bytes.
type RescueFrame struct {
	Frame
	// Data reads the bytes, from position 0 on; nil if the kind has none.
	Data io.ReaderAt
}

// WriteRescue puts a rescue file with these frames, in this order, in place of
// the one that is there, if any: after a crash at any moment the old or the new
// one is there, whole. On return without error the new one is durable. Frames
// of the old one that still count are given again by the caller, who reads
// them with ReadRescue.
//
// The file has the headers and runs of a journal, in one region up to its end,
// and says how many runs there are: one that is missing is damage.
func WriteRescue(fsys vfs.FS, dir string, frames []RescueFrame) error {
	name := filepath.Join(dir, RescueName)
	if err := writeRescueTemp(fsys, name+tempSuffix, frames); err != nil {
		_ = fsys.Remove(name + tempSuffix)
		return fmt.Errorf("write the rescue file: %w", err)
	}
	if err := fsys.Rename(name+tempSuffix, name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func writeRescueTemp(fsys vfs.FS, name string, frames []RescueFrame) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fillRescue(f, frames), f.Close())
}

func fillRescue(f vfs.File, frames []RescueFrame) error {
	h := header{session: rand.Uint64(), sequence: 1, chain: rand.Uint64(), write: 1}
	r := rescuer{writer: newRunWriter(f), run: runHeader{session: h.session, sequence: h.sequence, chain: h.chain, pos: halvesPos}}
	for len(frames) > 0 {
		n, err := r.next(frames)
		if err != nil {
			return err
		}
		frames = frames[n:]
		h.runs++
	}
	h.halfBytes = r.run.pos - halvesPos // the region: it has no second half
	block := h.block(rescueMagic)
	for i := range int64(2) {
		if _, err := f.WriteAt(block, i*blockBytes); err != nil {
			return err
		}
	}
	return f.Sync()
}

// rescuer writes the runs of a rescue file.
type rescuer struct {
	writer *runWriter
	run    runHeader // of the next run
	piece  []byte
}

// next writes a run of the first frames and tells how many. One frame goes into
// a run whatever its size.
func (r *rescuer) next(frames []RescueFrame) (int, error) {
	n, size := 0, int64(runFixedBytes)
	for n < len(frames) {
		more := frameHeaderBytes + frames[n].carried()
		if n > 0 && size+more > runBytesMax {
			break
		}
		size += more
		n++
	}
	h := r.run
	h.size, h.frames = size, uint32(n)
	if err := r.writer.begin(&h); err != nil {
		return 0, err
	}
	for i := range frames[:n] {
		if err := r.writer.frame(&frames[i].Frame); err != nil {
			return 0, err
		}
	}
	for i := range frames[:n] {
		if err := r.bytes(&frames[i]); err != nil {
			return 0, err
		}
	}
	sum, err := r.writer.end(&h)
	r.run.pos = r.writer.pos
	r.run.sequence, r.run.chain = h.sequence+1, sum
	return n, err
}

// bytes copies what a frame carries.
func (r *rescuer) bytes(f *RescueFrame) error {
	if r.piece == nil {
		r.piece = make([]byte, walkBufferBytes)
	}
	for pos := int64(0); pos < f.carried(); pos += walkBufferBytes {
		p := r.piece[:min(walkBufferBytes, f.carried()-pos)]
		if n, err := f.Data.ReadAt(p, pos); n < len(p) {
			return fmt.Errorf("read a frame of partition %d at offset %d: %w", f.Partition, f.First, err)
		}
		if err := r.writer.add(p); err != nil {
			return err
		}
		if err := r.writer.flush(); err != nil { // p is used again
			return err
		}
	}
	return nil
}

// ReadRescue reads the rescue file of a directory, writing nothing. All of it
// must be whole. Errors: fs.ErrNotExist, *DamageError, ErrNewerFormat, those of
// the files.
func ReadRescue(fsys vfs.FS, dir string) (*Contents, error) {
	f, err := fsys.Open(filepath.Join(dir, RescueName))
	if err != nil {
		return nil, err
	}
	c := &Contents{fs: fsys, file: f, magic: rescueMagic}
	if err := c.readRescue(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

func (c *Contents) readRescue() error {
	h, _, err := readHeader(c.file, c.magic)
	if err != nil {
		return err
	}
	size, err := c.file.Size()
	if err != nil {
		return err
	}
	if size != halvesPos+h.halfBytes {
		return &DamageError{File: c.file.Name(), Pos: size, Reason: "the file is not as long as its header says"}
	}
	w := walker{file: c.file, header: h, regions: []region{{halvesPos, size}}, buffer: make([]byte, min(walkBufferBytes, size))}
	if err := w.walk(); err != nil {
		return err
	}
	if uint64(w.runs) != h.runs {
		return w.damage(&runHeader{sequence: h.sequence + uint64(w.runs), pos: w.last.end}, "it is not whole")
	}
	c.take(&w)
	return nil
}
