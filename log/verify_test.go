package log

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// put makes or replaces a file, remove takes it away.
func (s *still) put(name string, content []byte) {
	path := filepath.Join(s.dir, name)
	if s.files[path] == nil {
		s.names = append(slices.Clone(s.names), stillEntry{name: name})
	}
	s.files[path] = &stillFile{info: stillEntry{name: name, size: int64(len(content))}, content: content}
}

func (s *still) remove(name string) {
	delete(s.files, filepath.Join(s.dir, name))
	s.names = slices.DeleteFunc(slices.Clone(s.names), func(e fs.DirEntry) bool { return e.Name() == name })
}

func (s *still) content(name string) []byte { return s.files[filepath.Join(s.dir, name)].content }

// last is the name of the last file with that suffix.
func (s *still) last(suffix string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.files)), func(n string) bool { return !strings.HasSuffix(n, suffix) })
	return filepath.Base(names[len(names)-1])
}

// first is the name of the first.
func (s *still) first(suffix string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.files)), func(n string) bool { return !strings.HasSuffix(n, suffix) })
	return filepath.Base(names[0])
}

type stillEntry struct {
	fs.FileInfo
	name string
	size int64
	dir  bool
}

func (e stillEntry) Name() string               { return e.name }
func (e stillEntry) IsDir() bool                { return e.dir }
func (e stillEntry) Type() fs.FileMode          { return 0 }
func (e stillEntry) Size() int64                { return e.size }
func (e stillEntry) Info() (fs.FileInfo, error) { return e, nil }

// What is done to the directory of a partition that Kafka closed, and what
// Verify says about it.
func TestVerifyTells(t *testing.T) {
	for _, c := range []struct {
		name     string
		of       string // epochs/data/ep-0 unless told
		unclean  bool   // no mark of a clean stop, recovery point 40
		do       func(t *testing.T, s *still, o *Options)
		severity Severity
		kind     string
		text     string
		also     bool // other files contradict it: that is damage too
	}{
		{name: "segment lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove("00000000000000000035.log")
		}, severity: SeverityDamage, kind: FindingOffsets, text: "offsets 35 to 67 are missing before the segment"},
		{name: "last segment lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove("00000000000000000068.log")
		}, severity: SeverityDamage, kind: FindingSnapshot, text: "the snapshot is of offset 87, the log ends at 68: what lies between is lost"},
		{name: "last batch lost", do: func(t *testing.T, s *still, _ *Options) {
			b := s.content("00000000000000000068.log")
			pos := 0
			for at := 0; at < len(b); {
				size, _ := batch.Frame(b[at:])
				pos, at = at, at+int(size)
			}
			s.put("00000000000000000068.log", b[:pos])
		}, severity: SeverityDamage, kind: FindingPoints, text: "the recorded recovery point is 87, the log ends at"},
		{name: "zeros behind a closed log", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000068.log", append(slices.Clone(s.content("00000000000000000068.log")), make([]byte, 100)...))
		}, severity: SeverityDamage, kind: FindingBatch, text: "zeros; nothing readable follows"},
		{name: "zeros behind an open log", unclean: true, do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000068.log", append(slices.Clone(s.content("00000000000000000068.log")), make([]byte, 100)...))
		}, severity: SeverityNote, kind: FindingTail, text: "100 zero bytes follow the last batch"},
		{name: "torn", unclean: true, do: func(t *testing.T, s *still, _ *Options) {
			b := s.content("00000000000000000068.log")
			s.put("00000000000000000068.log", b[:len(b)-9])
		}, severity: SeverityNote, kind: FindingTail, text: "torn tail of"},
		{name: "torn below the recovery point", unclean: true, do: func(t *testing.T, s *still, o *Options) {
			o.Points.RecoveryPoint = 87
			b := s.content("00000000000000000068.log")
			s.put("00000000000000000068.log", b[:len(b)-9])
		}, severity: SeverityDamage, kind: FindingBatch, text: "nothing readable follows"},
		{name: "bad with whole batches behind it", unclean: true, do: func(t *testing.T, s *still, _ *Options) {
			s.content("00000000000000000068.log")[70] ^= 4
		}, severity: SeverityWarning, kind: FindingTail, text: "readable again at byte"},
		{name: "segments behind what recovery cuts", unclean: true, do: func(t *testing.T, s *still, _ *Options) {
			b := s.content("00000000000000000035.log")
			b[len(b)-1] ^= 1
		}, severity: SeverityWarning, kind: FindingTail, text: "and 1 later segments, and keeps a copy"},
		{name: "recovery point beyond the end", unclean: true, do: func(t *testing.T, s *still, o *Options) {
			o.Points.RecoveryPoint = 99
		}, severity: SeverityNote, kind: FindingPoints, text: "the recorded recovery point is 99, the log ends at 87: recovery corrects it"},
		{name: "log start beyond the end", do: func(t *testing.T, s *still, o *Options) {
			o.Points.LogStart = 99
		}, severity: SeverityDamage, kind: FindingPoints, text: "opening the log deletes all of it"},
		{name: "offset index lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove("00000000000000000035.index")
		}, severity: SeverityWarning, kind: FindingOffsetIndex, text: "the index is missing"},
		{name: "time index not finished", do: func(t *testing.T, s *still, _ *Options) {
			b := s.content("00000000000000000035.timeindex")
			s.put("00000000000000000035.timeindex", b[:len(b)-12])
		}, severity: SeverityDamage, kind: FindingTimeIndex, text: "is not the last entry"},
		{name: "transaction index lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove("00000000000000000035.txnindex")
		}, severity: SeverityDamage, kind: FindingTxnIndex, text: "has no entry"},
		{name: "transaction index of another segment", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000035.txnindex", s.content("00000000000000000068.txnindex"))
		}, severity: SeverityDamage, kind: FindingTxnIndex, text: "the segment ends at offset 68"},
		{name: "index without its log", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000099.index", nil)
		}, severity: SeverityNote, kind: FindingFile, text: "an index without its log"},
		{name: "snapshot at the end lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove("00000000000000000087.snapshot")
		}, severity: SeverityDamage, kind: FindingSnapshot, text: "a clean stop leaves a snapshot at the log end, which is 87"},
		{name: "all snapshots lost", do: func(t *testing.T, s *still, _ *Options) {
			for strings.Contains(strings.Join(slices.Collect(maps.Keys(s.files)), " "), ".snapshot") {
				s.remove(s.last(".snapshot"))
			}
		}, severity: SeverityWarning, kind: FindingSnapshot, text: "Kafka would forget all producers"},
		{name: "all snapshots and the head lost", do: func(t *testing.T, s *still, _ *Options) {
			for strings.Contains(strings.Join(slices.Collect(maps.Keys(s.files)), " "), ".snapshot") {
				s.remove(s.last(".snapshot"))
			}
			s.remove("00000000000000000000.log")
		}, severity: SeverityDamage, kind: FindingSnapshot, text: "sequences and epochs of its producers are lost"},
		{name: "snapshot of another offset", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000068.snapshot", s.content("00000000000000000035.snapshot"))
		}, severity: SeverityDamage, kind: FindingSnapshot, text: "the snapshot says epoch"},
		{name: "epochs lost", do: func(t *testing.T, s *still, _ *Options) {
			s.remove(EpochsName)
		}, severity: SeverityNote, kind: FindingEpochs, text: "there is no file of leader epochs"},
		{name: "epochs not readable", do: func(t *testing.T, s *still, _ *Options) {
			s.put(EpochsName, []byte("0\n2\n0 0\n"))
		}, severity: SeverityDamage, kind: FindingEpochs, text: "line 4"},
		{name: "epochs out of order", do: func(t *testing.T, s *still, _ *Options) {
			s.put(EpochsName, []byte("0\n2\n4 0\n3 20\n"))
		}, severity: SeverityDamage, kind: FindingEpochs, text: "out of order"},
		{name: "epochs of another log", do: func(t *testing.T, s *still, _ *Options) {
			s.put(EpochsName, []byte("0\n1\n7 0\n"))
		}, severity: SeverityDamage, kind: FindingEpochs, text: EpochsName + " says 7"},
		{name: "no topic id", do: func(t *testing.T, s *still, _ *Options) {
			s.put("partition.metadata", []byte("version: 0\ntopic_id: x"))
		}, severity: SeverityDamage, kind: FindingFile, text: "topic id"},
		{name: "cut tail kept", do: func(t *testing.T, s *still, _ *Options) {
			s.put(segment.CutName(68, 5), []byte("x"))
		}, severity: SeverityNote, kind: FindingFile, text: "a torn tail that a recovery cut and kept"},
		{name: "swap", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000035.index.deleted", nil)
		}, severity: SeverityNote, kind: FindingFile, text: "left over; opening the log removes it"},
		{name: "foreign file", do: func(t *testing.T, s *still, _ *Options) {
			s.put("notes.txt", nil)
		}, severity: SeverityNote, kind: FindingFile, text: "belongs to no log"},
		{name: "marker of no kind", do: func(t *testing.T, s *still, _ *Options) {
			s.put("00000000000000000068.log", badMarker(t, s.content("00000000000000000068.log")))
		}, severity: SeverityWarning, kind: FindingTransaction, text: "the control record cannot be read", also: true},
		{name: "leader would have refused", of: "plain/data/refused-0", do: func(*testing.T, *still, *Options) {},
			severity: SeverityWarning, kind: FindingRecords, text: "producer id 7000 without an epoch"},
		{name: "consumers skip", of: "plain/data/refused-deltas-0", do: func(*testing.T, *still, *Options) {},
			severity: SeverityWarning, kind: FindingRecords, text: "record 1 has offset delta 0 where 1 follows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := c.of
			if of == "" {
				of = "epochs/data/ep-0"
			}
			o, vo := kafkaPartition(t, filepath.Join(kafkaDir, filepath.Dir(of)), filepath.Base(of))
			s := readStill(t, vfs.Machine(), o.Dir)
			o.FS = s
			if c.unclean {
				o.Clean, o.Points.RecoveryPoint, o.Points.HighWatermark = false, 40, 40
			}
			c.do(t, s, &o)
			r, err := Verify(t.Context(), o, vo)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Severity == c.severity && f.Kind == c.kind && strings.Contains(f.Text, c.text)
			})
			if !found || (r.Damage > 0) != (c.severity == SeverityDamage || c.also) {
				t.Errorf("want %s, %s, %q; got%s", c.severity, c.kind, c.text, tell(r))
			}
			if err := r.Err(); (err != nil) != (r.Damage > 0) || err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v with %d findings of damage", err, r.Damage)
			}
		})
	}
}

// badMarker gives the log with the first marker's key of version −1, and a
// checksum that fits.
func badMarker(t *testing.T, b []byte) []byte {
	t.Helper()
	b = slices.Clone(b)
	for at := 0; at < len(b); {
		v, err := batch.Parse(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		if v.IsControl() {
			v[batch.HeaderSize+5] = 0xff // behind length, attributes, deltas, key length
			binary.BigEndian.PutUint32(v[17:], crc32.Checksum(v[21:], crc32.MakeTable(crc32.Castagnoli)))
			return b
		}
		at += len(v)
	}
	t.Fatal("no marker")
	return nil
}

// The log ends where Kafka's own recovery ended it, and what is wrong there is
// told: as a note where nothing follows, as a warning where whole batches do.
func TestVerifyDamagedCrashes(t *testing.T) {
	for _, c := range []struct {
		damage, name string
		severity     Severity
		kind         string
	}{
		{"torn", "orders-0", SeverityNote, FindingTail},
		{"torn", "orders-1", SeverityNote, FindingTail},
		{"torn", "plain-0", SeverityNote, FindingTail},
		{"flipped", "orders-0", SeverityWarning, FindingTail},
		{"flipped", "orders-2", SeverityWarning, FindingTail},
		{"flipped", "plain-0", SeverityNote, FindingTail}, // it is the last batch
	} {
		t.Run(c.damage+"/"+c.name, func(t *testing.T) {
			o, vo := kafkaPartition(t, filepath.Join(kafkaDir, "unclean/crashed/data"), c.name)
			s := readStill(t, vfs.Machine(), o.Dir)
			over := filepath.Join(kafkaDir, "unclean", c.damage, "crashed/data", c.name)
			entries, err := os.ReadDir(over)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				b, err := os.ReadFile(filepath.Join(over, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				s.put(e.Name(), b)
			}
			o.FS = s
			r, err := Verify(t.Context(), o, vo)
			if err != nil {
				t.Fatal(err)
			}
			l, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Abandon()
			if end := l.Frontiers().LogEnd; r.LogEnd != end {
				t.Errorf("the log ends at %d, loading it ends it at %d", r.LogEnd, end)
			}
			if r.Damage > 0 || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == c.severity && f.Kind == c.kind }) {
				t.Errorf("want a %s, %s; got%s", c.severity, c.kind, tell(r))
			}
		})
	}
}

// What is counted, how much is kept, what is told meanwhile, and when it ends.
func TestVerifyReport(t *testing.T) {
	o, vo := kafkaPartition(t, filepath.Join(kafkaDir, "epochs/data"), "ep-0")
	s := readStill(t, vfs.Machine(), o.Dir)
	o.FS = s
	size := int64(0)
	for name, f := range s.files {
		if strings.HasSuffix(name, ".log") {
			size += int64(len(f.content))
		}
	}
	told := int64(0)
	vo.Progress = func(n int64) { told += n }
	r, err := Verify(t.Context(), o, vo)
	if err != nil || r.Segments != 3 || r.Bytes != size || told != size || r.LogEnd != 87 || r.Records == 0 || r.Records >= 87 || r.Aborted != 3 || r.Compacted {
		t.Errorf("%+v, %v; want 3 segments of %d bytes, told of %d", r, err, size, told)
	}
	s.put(EpochsName, []byte("0\n3\n7 0\n8 35\n9 68\n"))
	s.remove("00000000000000000035.txnindex")
	vo.FindingsMax = 1
	if r, err = Verify(t.Context(), o, vo); err != nil || len(r.Findings) != 1 || r.Damage < 3 {
		t.Errorf("%d findings kept, %d counted, %v; want 1 and more", len(r.Findings), r.Damage, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = Verify(ctx, o, vo); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was ended", err)
	}
	o.FS, o.Dir = vfs.NewMem(), "gone"
	if _, err = Verify(t.Context(), o, vo); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
}

// A log of a format before record batches cannot be looked at.
func TestVerifyLegacy(t *testing.T) {
	body := []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 'v'}
	message := make([]byte, 16, 64)
	binary.BigEndian.PutUint32(message[8:], uint32(4+len(body)))
	binary.BigEndian.PutUint32(message[12:], crc32.ChecksumIEEE(body))
	s := &still{dir: "d", files: map[string]*stillFile{}}
	s.put("00000000000000000000.log", append(message, body...))
	for _, clean := range []bool{true, false} {
		if _, err := Verify(t.Context(), Options{FS: s, Dir: "d", Clean: clean}, VerifyOptions{}); !errors.Is(err, batch.ErrLegacyMagic) {
			t.Errorf("clean %v: %v, want ErrLegacyMagic", clean, err)
		}
	}
}
