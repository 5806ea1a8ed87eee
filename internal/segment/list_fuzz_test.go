package segment

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
)

// FuzzList makes a directory of any files of segments, in any states of their
// life, also such as no crash leaves: the listing is in order, nothing that it
// shows is to be removed, and once it is applied the directory holds what was
// shown, and stays so. Files of other names are not touched.
func FuzzList(f *testing.F) {
	for _, c := range swapCases {
		var script []byte
		for _, short := range c.files {
			name, _ := c.file(short)
			if n, ok := ParseName(name); ok {
				script = append(script, fuzzedFile{base: byte(n.Offset / 10), kind: n.Kind, suffix: n.Suffix, records: 10}.encode()...)
			}
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		mem := vfs.NewMem()
		if err := mem.Mkdir("/d", 0o755); err != nil {
			t.Fatal(err)
		}
		foreign := []string{"leader-epoch-checkpoint", "partition.metadata", "00abc.log", "00000000000000000000.log.5.cut"}
		for _, name := range foreign {
			if err := vfs.Replace(mem, "/d/"+name, []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		for ; len(script) >= 3; script = script[3:] {
			decodeFuzzedFile(script).make(t, mem)
		}
		before := files(t, mem)
		l, err := List(mem, "/d")
		if errors.Is(err, errIsDirectory) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, l)
		shown := l.shown(t, mem)
		if !maps.Equal(files(t, mem), before) {
			t.Error("listing changed something")
		}
		if err := l.Apply(mem); err != nil {
			t.Fatalf("apply to %q: %v", slices.Sorted(maps.Keys(before)), err)
		}
		again, err := List(mem, "/d")
		if err != nil || again.Pending() || l.Pending() {
			t.Fatalf("of %q: %v; is still to do: %q, %q, %q", slices.Sorted(maps.Keys(before)), err, again.unfinished, again.removed, again.renamed)
		}
		consistent(t, again)
		for _, now := range []*Listing{l, again} {
			if got := now.shown(t, mem); !maps.Equal(got, shown) {
				t.Errorf("there is %q, shown was %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(shown)))
			}
		}
		for _, name := range foreign {
			if files(t, mem)[name] != name {
				t.Errorf("%s was touched", name)
			}
		}
	})
}

// consistent checks what holds of every listing.
func consistent(t *testing.T, l *Listing) {
	t.Helper()
	if !slices.IsSortedFunc(l.Segments, func(a, b SegmentFiles) int { return int(a.Base - b.Base) }) || !slices.IsSorted(l.Snapshots) {
		t.Errorf("not in order: %+v, %v", l.Segments, l.Snapshots)
	}
	gone := map[string]bool{}
	for _, name := range slices.Concat(l.unfinished, l.removed) {
		gone[name] = true
	}
	live := map[string]bool{}
	use := func(path string) {
		name := filepath.Base(path)
		if gone[name] || live[name] {
			t.Errorf("%s is shown, and to be removed %v, shown twice %v", name, gone[name], live[name])
		}
		live[name] = true
	}
	for i, s := range l.Segments {
		if i > 0 && s.Base == l.Segments[i-1].Base {
			t.Errorf("two segments at %d", s.Base)
		}
		if s.Paths[KindLog] == "" {
			t.Errorf("segment %d has no log", s.Base)
		}
		for _, path := range s.Paths {
			if path != "" {
				use(path)
			}
		}
	}
	for i, at := range l.Snapshots {
		if i > 0 && at == l.Snapshots[i-1] {
			t.Errorf("two snapshots at %d", at)
		}
		use(l.SnapshotPath(at))
	}
	for _, pair := range l.renamed {
		if !live[pair[0]] {
			t.Errorf("%s is to be renamed and not shown", pair[0])
		}
	}
}

// shown is the content of what a listing shows, by kind and offset.
func (l *Listing) shown(t *testing.T, mem *vfs.Mem) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(n Name, path string) {
		content, err := vfs.ReadFile(mem, path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all[n.String()] = string(content)
	}
	for _, s := range l.Segments {
		for k, path := range s.Paths {
			if path != "" {
				add(Name{Offset: s.Base, Kind: Kind(k)}, path)
			}
		}
		if size := len(all[FileName(s.Base, KindLog)]); int64(size) != s.Size {
			t.Errorf("segment %d has %d bytes, shown are %d", s.Base, size, s.Size)
		}
	}
	for _, at := range l.Snapshots {
		add(Name{Offset: at, Kind: KindSnapshot}, l.SnapshotPath(at))
	}
	return all
}

// fuzzedFile is one file of a directory: three bytes of a script.
type fuzzedFile struct {
	base      byte // in tens
	kind      Kind
	suffix    Suffix
	records   byte // of a .log
	directory bool
	special   bool // not one of a segment's files
}

func (f fuzzedFile) encode() []byte {
	flags := byte(0)
	if f.directory {
		flags |= 1
	}
	if f.special {
		flags |= 2
	}
	return []byte{f.base<<3 | flags, byte(f.kind)<<4 | byte(f.suffix), f.records}
}

func decodeFuzzedFile(b []byte) fuzzedFile {
	return fuzzedFile{base: b[0] >> 3, kind: Kind(b[1]>>4) % kinds, suffix: Suffix(b[1]&0xf) % suffixes, records: b[2],
		directory: b[0]&1 != 0, special: b[0]&2 != 0}
}

func (f fuzzedFile) make(t *testing.T, mem *vfs.Mem) {
	n := Name{Offset: int64(f.base) * 10, Kind: f.kind, Suffix: f.suffix}
	path := "/d/" + n.String()
	if f.special {
		path = "/d/" + []string{PreparedName, n.String() + tempSuffix, fmt.Sprintf("%d.log.5.cut", n.Offset)}[int(f.suffix)%3]
	}
	if f.directory {
		_ = mem.Mkdir(path, 0o755) // or it is there
		return
	}
	content := []byte(n.String())
	if f.kind == KindLog && f.records > 0 {
		content = append(record(n.Offset, int(f.records), 1, 0), content...)
	}
	_ = vfs.Replace(mem, path, content) // unless it is a directory
}
