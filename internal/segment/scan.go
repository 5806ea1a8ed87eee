package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/oncelog/oncelog/batch"
)

// scanBytes is how much a Scanner reads at once: sequential preads of this
// size run at the speed of copy and checksum.
const scanBytes = 1 << 20

// BatchBytesMax bounds the memory that one batch, whose length stands in the
// input, may take: a segment file cannot be larger.
const BatchBytesMax = math.MaxInt32

// TornError says that the bytes from a position on are no whole batch: a torn
// tail, zeros, or damage. Which of them it is depends on what was synced.
type TornError struct {
	Pos int64 // byte position in the file
	Err error // why
}

func (e *TornError) Error() string { return fmt.Sprintf("no whole batch at byte %d: %v", e.Pos, e.Err) }
func (e *TornError) Unwrap() error { return e.Err }

// ErrZeros says that a position is followed by nothing but zeros as far as was
// looked: the allocated, unwritten end of a file.
var ErrZeros = errors.New("segment: zeros")

var scanBuffers = sync.Pool{New: func() any { b := make([]byte, scanBytes); return &b }}

// Scanner walks the batches of a file in order. Not safe for concurrent use.
type Scanner struct {
	r      io.ReaderAt
	pos    int64 // of the current batch
	next   int64 // of the one behind it
	end    int64
	buffer *[]byte
	large  []byte // for batches that do not fit into buffer
	start  int64  // file position of window[0]
	window []byte
	batch  batch.Batch
	check  bool
	err    error
}

// NewScanner walks [pos, end) of r, a batch must start at pos. With check
// every batch is verified (framing and CRC), else only its framing is. Close
// the scanner to give its buffer back.
func NewScanner(r io.ReaderAt, pos, end int64, check bool) *Scanner {
	return &Scanner{r: r, pos: pos, next: pos, end: end, check: check, buffer: scanBuffers.Get().(*[]byte), start: pos}
}

// Next moves to the next batch, false at the end or at the first position
// where no whole batch stands.
func (s *Scanner) Next() bool {
	if s.err != nil {
		return false
	}
	s.pos = s.next
	if s.pos >= s.end {
		return false
	}
	head, err := s.bytes(s.pos, min(batch.HeaderSize, s.end-s.pos))
	if err != nil {
		s.err = err
		return false
	}
	size, err := batch.Frame(head)
	if err != nil {
		s.err = &TornError{Pos: s.pos, Err: s.explain(head, err)}
		return false
	}
	if size > s.end-s.pos {
		s.err = &TornError{Pos: s.pos, Err: fmt.Errorf("%w: %d bytes of %d are there", batch.ErrShort, s.end-s.pos, size)}
		return false
	}
	b, err := s.bytes(s.pos, size)
	if err != nil {
		s.err = err
		return false
	}
	if s.batch, err = batch.Parse(b); err == nil && s.check {
		err = s.batch.Check()
	}
	if err != nil {
		s.err = &TornError{Pos: s.pos, Err: err}
		return false
	}
	s.next = s.pos + size
	return true
}

// explain turns the framing error of an all-zero head into ErrZeros.
func (s *Scanner) explain(head []byte, err error) error {
	for _, c := range head {
		if c != 0 {
			return err
		}
	}
	return ErrZeros
}

// bytes gives size bytes at pos, from the window or freshly read.
func (s *Scanner) bytes(pos, size int64) ([]byte, error) {
	if from := pos - s.start; from >= 0 && from+size <= int64(len(s.window)) {
		return s.window[from : from+size], nil
	}
	into := *s.buffer
	if size > int64(len(into)) {
		if int64(cap(s.large)) < size {
			s.large = make([]byte, size)
		}
		into = s.large[:size]
	}
	n, err := s.r.ReadAt(into[:min(int64(len(into)), s.end-pos)], pos)
	if int64(n) < size {
		if err == nil || err == io.EOF {
			err = &TornError{Pos: pos, Err: fmt.Errorf("%w: the file ends at byte %d", batch.ErrShort, pos+int64(n))}
		}
		return nil, err
	}
	s.start, s.window = pos, into[:n]
	return into[:size], nil
}

// Batch is the current batch, valid until the next call of Next or Close.
func (s *Scanner) Batch() batch.Batch { return s.batch }

// Pos is the position of the current batch; after Next returned false, where
// the walk ended.
func (s *Scanner) Pos() int64 { return s.pos }

// Err is nil at the proper end, a *TornError where no whole batch stands, or
// the error of the file.
func (s *Scanner) Err() error { return s.err }

// Close gives the buffer back. The batch handed out is invalid then.
func (s *Scanner) Close() {
	if s.buffer != nil {
		scanBuffers.Put(s.buffer)
		s.buffer, s.window, s.batch = nil, nil, nil
	}
}
