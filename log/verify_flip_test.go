package log

import (
	"flag"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// still is a directory in memory that nobody writes to, but for one byte that
// a test changes. Not safe for concurrent use.
type still struct {
	vfs.FS // nil: what is not below is not needed
	dir    string
	names  []fs.DirEntry
	files  map[string]*stillFile
}

type stillFile struct {
	vfs.File
	info    fs.FileInfo
	content []byte
}

func readStill(t testing.TB, fsys vfs.FS, dir string) *still {
	t.Helper()
	s := &still{dir: dir, files: map[string]*stillFile{}}
	var err error
	if s.names, err = fsys.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, e := range s.names {
		path := filepath.Join(dir, e.Name())
		info, err := fsys.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := vfs.ReadFile(fsys, path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		s.files[path] = &stillFile{info: info, content: b}
	}
	return s
}

// clone shares no byte with s.
func (s *still) clone() *still {
	c := &still{dir: s.dir, names: s.names, files: map[string]*stillFile{}}
	for name, f := range s.files {
		c.files[name] = &stillFile{info: f.info, content: append([]byte(nil), f.content...)}
	}
	return c
}

func (s *still) ReadDir(string) ([]fs.DirEntry, error) { return s.names, nil }

func (s *still) Stat(name string) (fs.FileInfo, error) {
	if f := s.files[name]; f != nil {
		return f.info, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (s *still) Open(name string) (vfs.File, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// inBatch is the byte of its batch that a bit of a .log file lies in.
func (s *still) inBatch(f flip) int {
	b, at := s.files[f.name].content, f.bit/8
	for {
		size, err := batch.Frame(b)
		if err != nil || at < int(size) {
			return at
		}
		b, at = b[size:], at-int(size)
	}
}

func (f *stillFile) Size() (int64, error) { return int64(len(f.content)), nil }
func (f *stillFile) Close() error         { return nil }
func (f *stillFile) ReadAt(b []byte, pos int64) (int, error) {
	if pos >= int64(len(f.content)) {
		return 0, io.EOF
	}
	n := copy(b, f.content[pos:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// headBits are the bits at the start of a batch that no checksum covers, but
// for the checksum's own.
const headBits = 21 * 8

// flip is one bit of a file.
type flip struct {
	name string
	bit  int
}

// logFlips are bits of the .log files: of every batchStride-th batch, the
// first and the last of a file included, all that lie outside of its checksum
// and every bitStride-th of the others.
func logFlips(t testing.TB, s *still, batchStride, bitStride int) (flips []flip) {
	t.Helper()
	for name, f := range s.files {
		if n, ok := segment.ParseName(filepath.Base(name)); !ok || n.Kind != segment.KindLog {
			continue
		}
		for pos, i := 0, 0; pos < len(f.content); i++ {
			size, err := batch.Frame(f.content[pos:])
			if err != nil {
				t.Fatal(err)
			}
			end := pos + int(size)
			if i%batchStride == 0 || end == len(f.content) {
				for bit := range int(size) * 8 {
					if bit < headBits || bit%bitStride == 0 {
						flips = append(flips, flip{name, pos*8 + bit})
					}
				}
			}
			pos = end
		}
	}
	return flips
}

// missedFlips flips bits of a sound partition, one at a time, and gives those
// that Verify does not tell of at that severity.
func missedFlips(t testing.TB, s *still, o Options, vo VerifyOptions, flips []flip, least Severity) (missed []flip) {
	t.Helper()
	const workers = 2
	var mu sync.Mutex
	var group sync.WaitGroup
	for w := range workers {
		c := s.clone()
		group.Go(func() {
			o := o
			o.FS = c
			for i := w; i < len(flips); i += workers {
				b := c.files[flips[i].name].content
				at, mask := flips[i].bit/8, byte(1)<<(flips[i].bit%8)
				b[at] ^= mask
				r, err := Verify(t.Context(), o, vo)
				if err != nil || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity >= least }) {
					mu.Lock()
					missed = append(missed, flips[i])
					mu.Unlock()
				}
				b[at] ^= mask
			}
		})
	}
	group.Wait()
	return missed
}

// findsAll fails for bits that are not found, and if there is something to
// tell of the partition as it is.
func findsAll(t *testing.T, s *still, o Options, vo VerifyOptions, flips []flip, least Severity) {
	t.Helper()
	o.FS = s
	if r, err := Verify(t.Context(), o, vo); err != nil || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity >= least }) {
		t.Fatalf("before any flip: %v%s", err, tell(r))
	}
	missed := missedFlips(t, s, o, vo, flips, least)
	for _, f := range missed[:min(len(missed), 10)] {
		t.Errorf("bit %d of byte %d of %s is not found", f.bit%8, f.bit/8, f.name)
	}
	if len(missed) > 0 || len(flips) == 0 {
		t.Errorf("%d of %d flips are not found", len(missed), len(flips))
	}
}

// everyBit asks for all bits of all partitions, which takes minutes.
var everyBit = flag.Bool("verify.everybit", false, "flip every bit of every partition that Kafka closed cleanly")

// smallFlips are the partitions of which every bit is flipped always.
var smallFlips = []string{"epochs/data/ep-1", "idempotent/data/wrap-0", "txn/data/hang-1", "plain/data/refused-deltas-0"}

// Every flipped bit of a partition that was closed cleanly and not compacted
// is found: under checksums, in base offsets, in leader epochs.
func TestVerifyFindsEveryFlip(t *testing.T) {
	total := 0
	for _, root := range kafkaRoots(t) {
		for _, name := range partitionsIn(t, root) {
			short := strings.TrimPrefix(root, kafkaDir+"/") + "/" + name
			o, vo := kafkaPartition(t, root, name)
			s := readStill(t, vfs.Machine(), o.Dir)
			flips := logFlips(t, s, 1, 1)
			if !o.Clean || vo.Compacted || len(flips) == 0 {
				continue
			}
			if !*everyBit && !slices.Contains(smallFlips, short) {
				// All bits outside of checksums; where there are many batches,
				// of some of them.
				const most = 20
				r, err := Verify(t.Context(), o, vo)
				if err != nil {
					t.Fatal(err)
				}
				flips = logFlips(t, s, int(r.Batches/most)+1, 8*389+5)
			}
			total += len(flips)
			t.Run(short, func(t *testing.T) { findsAll(t, s, o, vo, flips, SeverityDamage) })
		}
	}
	t.Logf("%d bits flipped", total)
}

// So is every flipped bit of indexes and snapshots. A note is enough: what an
// index says may be what an older Kafka would.
func TestVerifyFindsFlipsBesideTheLog(t *testing.T) {
	for _, short := range []string{"epochs/data/ep-0", "txn/data/orders-2", "idempotent/data/wrap-0"} {
		t.Run(short, func(t *testing.T) {
			o, vo := kafkaPartition(t, filepath.Join(kafkaDir, filepath.Dir(short)), filepath.Base(short))
			s := readStill(t, vfs.Machine(), o.Dir)
			var flips []flip
			for name, f := range s.files {
				if n, ok := segment.ParseName(filepath.Base(name)); ok && n.Kind != segment.KindLog {
					for bit := 0; bit < len(f.content)*8; bit++ {
						flips = append(flips, flip{name, bit})
					}
				}
			}
			findsAll(t, s, o, vo, flips, SeverityNote)
		})
	}
}

// In a compacted partition gaps are legal, so that some base offsets may be
// others: what is not found is a low bit of one, and nothing else.
func TestVerifyFlipsOfCompacted(t *testing.T) {
	for _, name := range []string{"kv-0", "kv-codec-0", "kv-horizon-passed-0", "kv-open-0"} {
		t.Run(name, func(t *testing.T) {
			o, vo := kafkaPartition(t, filepath.Join(kafkaDir, "compact/data"), name)
			if !vo.Compacted {
				t.Fatal("the cleaner was not here")
			}
			s := readStill(t, vfs.Machine(), o.Dir)
			flips := logFlips(t, s, 3, 8*101+3)
			missed := missedFlips(t, s, o, vo, flips, SeverityDamage)
			for _, f := range missed {
				if in := s.inBatch(f); in != 6 && in != 7 {
					t.Errorf("bit %d of byte %d of %s, byte %d of its batch, is not found", f.bit%8, f.bit/8, f.name, in)
				}
			}
			if len(missed)*50 > len(flips) {
				t.Errorf("%d of %d flips are not found", len(missed), len(flips))
			}
			t.Logf("%d flips, %d in base offsets that a gap leaves room for", len(flips), len(missed))
		})
	}
}
