package vfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// modelFile is a file as a naive model has it: whole contents, nothing shared.
type modelFile struct {
	now    []byte
	synced []byte
	// shortest is the smallest length since the last sync.
	shortest int
}

func (m *modelFile) resize(n int) {
	if n <= len(m.now) {
		m.now = m.now[:n:n] // what is cut off must not come back
	} else {
		m.now = append(m.now, make([]byte, n-len(m.now))...)
	}
	m.shortest = min(m.shortest, n)
}

func (m *modelFile) write(p []byte, pos int) {
	if len(p) > 0 && pos+len(p) > len(m.now) {
		m.resize(pos + len(p))
	}
	copy(m.now[min(pos, len(m.now)):], p)
}

func (m *modelFile) sync() {
	m.synced = bytes.Clone(m.now)
	m.shortest = len(m.now)
}

// allows checks what a crash left: each page is as synced, as it is now, or
// zeros where the file was cut or grew.
func (m *modelFile) allows(got []byte) error {
	longest := max(len(m.synced), len(m.now))
	if len(got) < m.shortest || len(got) > longest {
		return fmt.Errorf("length %d, never was out of %d to %d", len(got), m.shortest, longest)
	}
	old := padded(m.synced, longest)
	now := padded(m.now, longest)
	cut := bytes.Clone(old)
	clear(cut[min(m.shortest, longest):])
	for pos := 0; pos < len(got); pos += pageSize {
		end := min(pos+pageSize, len(got))
		page := got[pos:end]
		if !bytes.Equal(page, old[pos:end]) && !bytes.Equal(page, now[pos:end]) && !bytes.Equal(page, cut[pos:end]) {
			return fmt.Errorf("page %d of %d bytes is neither old nor new", pos/pageSize, len(got))
		}
	}
	return nil
}

func padded(b []byte, n int) []byte { return append(bytes.Clone(b), make([]byte, n-len(b))...) }

// history does random operations on one file of a file system and on the model.
type history struct {
	t       *testing.T
	r       *rand.Rand
	fsys    FS
	name    string
	file    File
	mapping Mapping // nil: none
	model   modelFile
	fill    byte
}

const historyBytesMax = 40_000

// step does one operation and tells which.
func (h *history) step() string {
	h.fill++
	pos, n := h.r.IntN(historyBytesMax/2), h.r.IntN(historyBytesMax/2)
	if h.r.IntN(2) == 0 {
		n = h.r.IntN(100)
	}
	p := bytes.Repeat([]byte{h.fill | 1}, n)
	switch h.r.IntN(10) {
	case 0, 1:
		must(h.t, second(h.file.WriteAt(p, int64(pos))))
		h.model.write(p, pos)
		return fmt.Sprintf("write %d+%d", pos, n)
	case 2:
		cut := h.r.IntN(n + 1)
		must(h.t, second(h.file.WriteVAt([][]byte{p[:cut], p[cut:]}, int64(pos))))
		h.model.write(p, pos)
		return fmt.Sprintf("writev %d+%d", pos, n)
	case 3:
		if h.mapping != nil && n < len(h.mapping.Bytes()) {
			return "no cut of what is mapped"
		}
		must(h.t, h.file.Truncate(int64(n)))
		if n != len(h.model.now) {
			h.model.resize(n)
		}
		return fmt.Sprintf("truncate %d", n)
	case 4:
		must(h.t, h.file.Allocate(int64(n)))
		if n > len(h.model.now) {
			h.model.resize(n)
		}
		return fmt.Sprintf("allocate %d", n)
	case 5:
		must(h.t, h.file.Datasync())
		h.model.sync()
		return "sync"
	case 6:
		return h.toggleMapping()
	case 7, 8:
		return h.writeMapping(pos, p)
	}
	must(h.t, h.file.Close())
	h.open()
	return "reopen"
}

func (h *history) open() {
	h.file = create(h.t, h.fsys, h.name)
}

func (h *history) toggleMapping() string {
	if h.mapping != nil {
		must(h.t, h.mapping.Close())
		h.mapping = nil
		return "unmap"
	}
	// A write through a mapping of a hole needs a block when nothing can fail.
	size := int64(len(h.model.now))
	must(h.t, h.file.Allocate(size))
	h.mapping = mapFile(h.t, h.file, size, true)
	return fmt.Sprintf("map %d", size)
}

func (h *history) writeMapping(pos int, p []byte) string {
	if h.mapping == nil || pos >= len(h.mapping.Bytes()) {
		return "nothing mapped there"
	}
	n := copy(h.mapping.Bytes()[pos:], p)
	h.model.write(p[:n], pos)
	return fmt.Sprintf("write mapped %d+%d", pos, n)
}

func second(_ int, err error) error { return err }

// check compares what reads show with the model.
func (h *history) check() error {
	if got := contentOf(h.t, h.fsys, h.name); got != string(h.model.now) {
		return fmt.Errorf("reads differ from the model (lengths %d and %d)", len(got), len(h.model.now))
	}
	if h.mapping != nil && !bytes.Equal(h.mapping.Bytes(), h.model.now[:len(h.mapping.Bytes())]) {
		return fmt.Errorf("the mapping differs from the model")
	}
	mem, ok := h.fsys.(*Mem)
	if !ok {
		return nil
	}
	for _, keep := range []float64{KeepNone, 0.5, KeepAll} {
		got := []byte(contentOf(h.t, mem.CrashClone(CrashOptions{Rand: h.r, KeepUnsynced: keep}), h.name))
		switch {
		case keep == KeepNone && !bytes.Equal(got, h.model.synced):
			return fmt.Errorf("a crash that keeps nothing leaves other than what was synced")
		case keep == KeepAll && !bytes.Equal(got, h.model.now):
			return fmt.Errorf("a crash that keeps all leaves other than what is")
		}
		if err := h.model.allows(got); err != nil {
			return fmt.Errorf("crash with %g: %w", keep, err)
		}
	}
	if got := contentOf(h.t, mem.KillClone(), h.name); got != string(h.model.now) {
		return fmt.Errorf("a kill leaves other than what is")
	}
	return nil
}

func runHistory(t *testing.T, fsys FS, dir string, seed uint64, steps int) {
	t.Helper()
	h := &history{t: t, r: seeded(seed), fsys: fsys, name: filepath.Join(dir, fmt.Sprint("h", seed))}
	h.open()
	defer func() {
		must(t, h.file.Close())
		if h.mapping != nil {
			must(t, h.mapping.Close())
		}
	}()
	must(t, fsys.SyncDir(dir))
	var done []string
	for range steps {
		done = append(done, h.step())
		if err := h.check(); err != nil {
			t.Fatalf("seed %d: %v\nafter %q", seed, err, done)
		}
	}
}

// TestHistories does random operations on both file systems; each must do what
// a naive model does, and a crash leave what the model allows.
func TestHistories(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		histories := 10
		_, mem := fsys.(*Mem)
		if mem && !raceEnabled {
			histories = 60
		}
		for seed := range uint64(histories) {
			if mem {
				fsys = NewMem()
			}
			runHistory(t, fsys, dir, seed, 60)
		}
	})
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		runHistory(t, NewMem(), "/", seed, 30)
	})
}
