package oncelog_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/index"
)

// Files of a partition, read without the engine: what its answers are held
// against where the truth gives only a digest or a rule.

// partitionFiles are the segments of one partition, ascending.
type partitionFiles []segmentFile

type segmentFile struct {
	base    int64
	bytes   []byte // of the .log file
	batches []placedBatch
	aborted []index.AbortedTxn // of the .txnindex file
}

// placedBatch is a batch and its position in its file.
type placedBatch struct {
	batch.Batch
	pos int64
}

func readPartitionFiles(t testing.TB, dir string) partitionFiles {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var all partitionFiles
	for _, path := range paths {
		all = append(all, readSegmentFile(t, path))
	}
	slices.SortFunc(all, func(a, b segmentFile) int { return int(a.base - b.base) })
	return all
}

// readSegmentFile reads a .log file up to the first byte that begins no whole
// batch, and the .txnindex beside it.
func readSegmentFile(t testing.TB, path string) segmentFile {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(path), ".log")
	base, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := segmentFile{base: base, bytes: mustRead(t, path)}
	for pos := 0; pos < len(s.bytes); {
		b, err := batch.Parse(s.bytes[pos:])
		if err != nil || b.Check() != nil {
			break
		}
		s.batches = append(s.batches, placedBatch{b, int64(pos)})
		pos += len(b)
	}
	txns, err := os.ReadFile(strings.TrimSuffix(path, ".log") + ".txnindex")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for ; len(txns) >= index.TxnEntrySize; txns = txns[index.TxnEntrySize:] {
		field := func(pos int) int64 { return int64(binary.BigEndian.Uint64(txns[pos:])) }
		s.aborted = append(s.aborted, index.AbortedTxn{ProducerID: field(2), First: field(10), Last: field(18), LastStable: field(26)})
	}
	return s
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// size is the bytes of whole batches.
func (s *segmentFile) size() int64 {
	if len(s.batches) == 0 {
		return 0
	}
	last := s.batches[len(s.batches)-1]
	return last.pos + int64(len(last.Batch))
}

// batchesOf are the batches of all segments.
func (f partitionFiles) batchesOf() (all []placedBatch) {
	for i := range f {
		all = append(all, f[i].batches...)
	}
	return all
}

func (f partitionFiles) abortedOf() (all []index.AbortedTxn) {
	for i := range f {
		all = append(all, f[i].aborted...)
	}
	return all
}

// fetch is the answer of a Kafka broker to a fetch at offset of at most limit
// bytes, the reader being bound to offsets below bound: part of one segment,
// from the batch that holds the offset, cut wherever the limit falls.
func (f partitionFiles) fetch(offset, bound int64, limit int) []byte {
	if offset >= bound {
		return nil
	}
	first := 0
	for first+1 < len(f) && f[first+1].base <= offset {
		first++
	}
	for i := first; i < len(f); i++ {
		s := &f[i]
		at := slices.IndexFunc(s.batches, func(b placedBatch) bool { return b.LastOffset() >= offset })
		if at < 0 {
			continue
		}
		end := s.size()
		if stop := slices.IndexFunc(s.batches, func(b placedBatch) bool { return b.LastOffset() >= bound }); stop >= 0 {
			end = s.batches[stop].pos
		}
		start := s.batches[at].pos
		n := min(end-start, int64(max(limit, len(s.batches[at].Batch))))
		return s.bytes[start : start+max(n, 0)]
	}
	return nil
}

// wholeBatches is the part of a fetch's bytes that is whole.
func wholeBatches(b []byte) []byte {
	end := 0
	for end < len(b) {
		one, err := batch.Parse(b[end:])
		if err != nil {
			break
		}
		end += len(one)
	}
	return b[:end]
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// copyTree copies a directory with everything in it, so that it can be
// written.
func copyTree(t testing.TB, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// treeOf is the content of every file below a directory.
func treeOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	tree := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		tree[path] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// sameTree fails the test if a directory is not what it was.
func sameTree(t testing.TB, before, after map[string][]byte) {
	t.Helper()
	for path, b := range before {
		if got, ok := after[path]; !ok {
			t.Errorf("%s is gone", path)
		} else if !bytes.Equal(got, b) {
			t.Errorf("%s has changed", path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}
