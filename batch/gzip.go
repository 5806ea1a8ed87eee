package batch

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

const (
	gzipLevelDefault = 6
	gzipLevelMax     = 9
	// gzipRoomMin is the smallest room worth a read: less would cost a call
	// for a few bytes.
	gzipRoomMin = 512
)

// gzipReader is an inflater with its window and tables, some 40 KiB: pooled.
type gzipReader struct {
	src bytes.Reader
	z   gzip.Reader
}

var (
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
	gzipWriters [gzipLevelMax + 1]sync.Pool // by level, of *gzipWriter
)

// gzipDecompress reads all members that src is made of, one after the other.
func gzipDecompress(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.src.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.src.Reset(src)
	start := len(dst)
	// Most data is text, and shrinks to a half or less.
	dst = grow(dst, min(max(2*len(src), gzipRoomMin), limit+gzipRoomMin), start+limit+gzipRoomMin)
	for first := true; first || r.src.Len() > 0; first = false {
		if err := r.z.Reset(&r.src); err != nil {
			switch {
			case !first: // no further member: ignored
				return dst, nil
			case errors.Is(err, io.EOF):
				return dst, errTruncated
			}
			return dst, err
		}
		r.z.Multistream(false)
		var err error
		if dst, err = r.member(dst, start+limit); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// member reads one member, until dst is longer than most.
func (r *gzipReader) member(dst []byte, most int) ([]byte, error) {
	for {
		dst = grow(dst, gzipRoomMin, most+gzipRoomMin)
		n, err := r.z.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > most:
			return dst, ErrDecompressedTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// gzipWriter is a deflater, some 100s of KiB: pooled. It writes to dst.
type gzipWriter struct {
	dst []byte
	z   *gzip.Writer
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	w.dst = append(w.dst, p...)
	return len(p), nil
}

func gzipCompress(dst, src []byte, level int) ([]byte, error) {
	if level == 0 || level == -1 {
		level = gzipLevelDefault
	}
	level = min(max(level, 1), gzipLevelMax)
	w, _ := gzipWriters[level].Get().(*gzipWriter)
	if w == nil {
		w = new(gzipWriter)
		z, err := gzip.NewWriterLevel(w, level)
		if err != nil {
			return dst, err
		}
		w.z = z
	}
	w.dst = dst
	w.z.Reset(w)
	_, err := w.z.Write(src)
	if err == nil {
		err = w.z.Close()
	}
	out := w.dst
	w.dst = nil
	gzipWriters[level].Put(w)
	return out, err
}
