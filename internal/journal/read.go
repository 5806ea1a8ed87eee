package journal

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/vfs"
)

// Contents is what a journal or rescue file holds: the frames of its whole
// runs. It keeps the file open and reads bytes from it when asked; memory is
// taken for frames only. Its methods are safe for concurrent use, but Close
// and Harden.
type Contents struct {
	Session uint64
	Store   [16]byte // as Options.Store was
	Frames  []Frame  // in the order of publishing
	Runs    int
	// DroppedRun is the last run if it is not whole, nil if it is: it was never
	// acknowledged. None of its frames is in Frames.
	DroppedRun *DroppedRun

	fs     vfs.FS
	file   vfs.File
	header header
	magic  string
	last   region
}

// DroppedRun is a run that was begun and is not whole.
type DroppedRun struct {
	Pos      int64  // in the file
	Sequence uint64 // of the run in its session
}

// errMoved says that the file was written while it was read.
var errMoved = errors.New("journal: written while read")

// readsMax bounds how often a journal that is overwritten is read again.
const readsMax = 16

// Read reads the journal of a directory, writing nothing; also of a directory
// whose store is running: then Contents is the state at some moment of the
// call, and Current tells later whether its bytes can still be read. Errors:
// fs.ErrNotExist, *DamageError, ErrNewerFormat, ErrBusy, those of the files.
func Read(fsys vfs.FS, dir string) (*Contents, error) {
	f, err := fsys.Open(filepath.Join(dir, Name))
	if err != nil {
		return nil, err
	}
	c := &Contents{fs: fsys, file: f, magic: journalMagic}
	for range readsMax {
		if err = c.read(); err != errMoved {
			break
		}
	}
	if err == errMoved {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

// read walks once. What it finds, damage included, counts only if the header
// is the same before and afterwards: a half is overwritten only after a header
// that no longer counts it was written.
func (c *Contents) read() error {
	h, _, err := readHeader(c.file, c.magic)
	if err != nil {
		return err
	}
	size, err := c.file.Size()
	if err != nil {
		return err
	}
	if size != h.fileBytes() {
		return &DamageError{File: c.file.Name(), Pos: size, Reason: "the file is not as long as its header says"}
	}
	w := walker{file: c.file, header: h, buffer: make([]byte, min(walkBufferBytes, size))}
	for i := range 2 {
		pos, end := h.half(int(h.first) ^ i)
		w.regions = append(w.regions, region{pos, end})
	}
	walkErr := w.walk()
	c.header = h
	if same, err := c.Current(); err != nil {
		return err
	} else if !same {
		return errMoved
	}
	if walkErr != nil {
		return walkErr
	}
	c.take(&w)
	return nil
}

func (c *Contents) take(w *walker) {
	c.Session, c.Store, c.header = w.header.session, w.header.store, w.header
	c.Frames, c.Runs, c.DroppedRun, c.last = w.frames, w.runs, w.dropped, w.last
}

// Current tells whether nothing of what was read can have been overwritten. A
// reader of a running store's directory asks after it read bytes: if false,
// they may be others.
func (c *Contents) Current() (bool, error) {
	h, _, err := readHeader(c.file, c.magic)
	return err == nil && h == c.header, err
}

// ReadFrame reads from the bytes of a frame, from position off in them, as
// io.ReaderAt does. Only a frame of KindBytes has any.
func (c *Contents) ReadFrame(f Frame, p []byte, off int64) (int, error) {
	size := f.carried()
	if off < 0 || off >= size {
		return 0, io.EOF
	}
	short := int64(len(p)) > size-off
	n, err := c.file.ReadAt(p[:min(int64(len(p)), size-off)], f.at+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// ReaderAt reads the bytes of one frame.
func (c *Contents) ReaderAt(f Frame) io.ReaderAt { return frameReader{c, f} }

type frameReader struct {
	contents *Contents
	frame    Frame
}

func (r frameReader) ReadAt(p []byte, off int64) (int, error) {
	return r.contents.ReadFrame(r.frame, p, off)
}

// Close closes the file.
func (c *Contents) Close() error { return c.file.Close() }
