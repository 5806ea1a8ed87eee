//go:build interop

package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// logFile is the content of one .log file.
type logFile []byte

// readLogFiles reads the .log files of a partition in order.
func readLogFiles(dir string) ([]logFile, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []logFile
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// batches goes through the batches of all files.
func batches(files []logFile) iter.Seq[batch.Batch] {
	return func(yield func(batch.Batch) bool) {
		for _, f := range files {
			for len(f) > 0 {
				b, err := batch.Parse(f)
				if err != nil {
					break // the zeros behind the end
				}
				if !yield(b) {
					return
				}
				f = f[len(b):]
			}
		}
	}
}

// slice gives size bytes from the batch on that holds an offset or, in a gap,
// the next: what Kafka answers a fetch with.
func slice(files []logFile, offset int64, size int) (logFile, error) {
	for _, f := range files {
		for pos := 0; pos+batch.HeaderSize <= len(f); {
			b, err := batch.Parse(f[pos:])
			if err != nil {
				break // the zeros behind the end
			}
			if b.LastOffset() >= offset {
				if size > len(f)-pos {
					return nil, fmt.Errorf("%d bytes from position %d lead past the end of the file", size, pos)
				}
				return f[pos : pos+size], nil
			}
			pos += len(b)
		}
	}
	return nil, fmt.Errorf("no batch at or after offset %d", offset)
}

// whole cuts off a batch that is not whole, and gives the last offset of what
// is left, -1 of nothing.
func (f logFile) whole() (logFile, int64) {
	pos, last := 0, int64(-1)
	for pos < len(f) {
		b, err := batch.Parse(f[pos:])
		if err != nil {
			break
		}
		pos += len(b)
		last = b.LastOffset()
	}
	return f[:pos], last
}

// fetchBytes compares the bytes of an answer with the truth's, which are those
// of the files with the truth's hash. It gives the last offset answered.
func (p *comparison) fetchBytes(q *fetchTruth, got []byte) (int64, error) {
	if q.Size == 0 {
		if len(got) > 0 {
			return 0, fmt.Errorf("%d bytes, want none", len(got))
		}
		return -1, nil
	}
	answer, err := slice(p.files, q.Offset, q.Size)
	if err != nil {
		return 0, err
	}
	if sum := sha256.Sum256(answer); hex.EncodeToString(sum[:]) != q.SHA256 {
		return 0, fmt.Errorf("the files do not hold Kafka's answer")
	}
	want, _ := answer.whole()
	all, last := logFile(got).whole()
	if len(all) != len(got) {
		return 0, fmt.Errorf("%d bytes are %d of whole batches", len(got), len(all))
	}
	if !bytes.HasPrefix(got, want) {
		return 0, fmt.Errorf("%d bytes, want %d, the first difference at %d", len(got), len(want), mismatch(got, want))
	}
	if len(got) > len(want) && len(got) > q.BytesMax {
		return 0, fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	p.c.add("bytes fetched", len(want))
	return last, nil
}

func mismatch(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// sameAborted compares the entries that overlap what was answered, in order
// and number; others are there or not as the answer's length has it.
func sameAborted(got []index.AbortedTxn, want [][2]int64, last int64) (int, error) {
	var a, b [][2]int64
	for _, x := range got {
		if x.First <= last {
			a = append(a, [2]int64{x.ProducerID, x.First})
		}
	}
	for _, x := range want {
		if x[1] <= last {
			b = append(b, x)
		}
	}
	if !slices.Equal(a, b) {
		return 0, fmt.Errorf("aborted transactions %v, want %v", a, b)
	}
	return len(a), nil
}
