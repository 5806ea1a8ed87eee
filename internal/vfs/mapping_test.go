package vfs

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"
)

func mapFile(t *testing.T, f File, size int64, writable bool) Mapping {
	t.Helper()
	m, err := f.Map(size, writable)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMappingIsTheFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "f")
		f := create(t, fsys, name)
		must(t, f.Allocate(20_000))
		writeAt(t, f, "before", 0)
		w := mapFile(t, f, 20_000, true)
		r := mapFile(t, f, 10_000, false)
		if len(w.Bytes()) != 20_000 || len(r.Bytes()) != 10_000 {
			t.Fatalf("mappings of %d and %d bytes", len(w.Bytes()), len(r.Bytes()))
		}
		must(t, r.Populate())
		must(t, w.Populate())
		if string(r.Bytes()[:6]) != "before" {
			t.Errorf("mapped: %q", r.Bytes()[:6])
		}
		copy(w.Bytes()[4094:], "over two pages")
		if string(r.Bytes()[4094:4108]) != "over two pages" {
			t.Error("two mappings differ")
		}
		b := make([]byte, 14)
		if _, err := f.ReadAt(b, 4094); string(b) != "over two pages" || err != nil {
			t.Errorf("ReadAt = %q, %v", b, err)
		}
		writeAt(t, f, "by a call", 9_000)
		if string(r.Bytes()[9_000:9_009]) != "by a call" {
			t.Error("the mapping does not show a write")
		}
		must(t, w.Sync(4094, 14))
		must(t, w.Sync(0, 20_000))
		must(t, w.Sync(20_000, 0))
		wantErr(t, w.Sync(0, 20_001), syscall.EINVAL)
		wantErr(t, w.Sync(-1, 2), syscall.EINVAL)

		must(t, f.Close())
		copy(w.Bytes()[100:], "after the file is closed")
		must(t, w.Close())
		if string(r.Bytes()[100:105]) != "after" {
			t.Error("the other mapping lost a write")
		}
		must(t, r.Close())
		must(t, r.Close())
		if got := contentOf(t, fsys, name); got[100:105] != "after" || len(got) != 20_000 {
			t.Error("the file lost a write through a mapping")
		}
	})
}

func TestMapGrownFile(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"))
		want := ""
		for i := range 5 {
			more := string(bytes.Repeat([]byte{byte('a' + i)}, 3000))
			writeAt(t, f, more, int64(len(want)))
			want += more
			m := mapFile(t, f, int64(len(want)), i%2 == 0)
			if string(m.Bytes()) != want {
				t.Errorf("mapping %d has the wrong content", i)
			}
			must(t, m.Close())
		}
	})
}

func TestEmptyMapping(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		m := mapFile(t, create(t, fsys, filepath.Join(dir, "f")), 0, false)
		if len(m.Bytes()) != 0 {
			t.Errorf("%d bytes", len(m.Bytes()))
		}
		must(t, m.Populate())
		must(t, m.Sync(0, 0))
		must(t, m.Close())
	})
}

// A mapping made while an older one is open may be longer, as long as the file
// was as long when the older one was made; otherwise Mem says so.
func TestMemMapLonger(t *testing.T) {
	fsys := NewMem()
	f := create(t, fsys, "f")
	must(t, f.Truncate(8192))
	short := mapFile(t, f, 10, false)
	long := mapFile(t, f, 8192, true)
	long.Bytes()[0] = 'x'
	if short.Bytes()[0] != 'x' {
		t.Error("two mappings differ")
	}
	must(t, f.Truncate(8193))
	_, err := f.Map(8193, false)
	wantErr(t, err, syscall.ENOTSUP)
	must(t, long.Close())
	must(t, short.Close())
	must(t, mapFile(t, f, 8193, false).Close())
}
