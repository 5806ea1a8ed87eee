package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
)

func dumpIn(t testing.TB, fsys vfs.FS, paths ...string) (kinds map[string][]object, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	o, err := newOutput(&out, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	d := &dumper{fs: fsys, out: o, stderr: &errs, progress: &progress{}, auto: true}
	err = d.run(paths)
	return objectsByKind(t, out.Bytes()), errs.String(), err
}

// A directory, a partition and a segment file show the batches that are in journal
// and tail only, and where these are.
func TestDumpMemory(t *testing.T) {
	mem := killedStore(t)
	for _, c := range []struct {
		path    string
		batches int
		held    []string
	}{
		{"data", 30, []string{journal.Name, tail.FileName}},
		{"data/fsync-0", 20, []string{journal.Name}},
		{"data/os-0/00000000000000000000.log", 10, []string{tail.FileName}},
	} {
		t.Run(c.path, func(t *testing.T) {
			kinds, stderr, err := dumpIn(t, mem, c.path)
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			if len(kinds["batch"]) != c.batches {
				t.Errorf("%d batches, want %d", len(kinds["batch"]), c.batches)
			}
			by := map[string]bool{}
			for _, h := range kinds["held"] {
				by[h["held_by"].(string)] = true
			}
			for _, name := range c.held {
				if !by[name] {
					t.Errorf("nothing is held by %s, only by %v", name, by)
				}
			}
			if len(by) != len(c.held) {
				t.Errorf("held by %v, want %v", by, c.held)
			}
		})
	}
}

// Our own files: every batch is in a frame or slot, with its partition's name.
func TestDumpMemoryFiles(t *testing.T) {
	mem := killedStore(t)
	kinds, _, err := dumpIn(t, mem, "data/"+journal.Name)
	if err != nil {
		t.Fatal(err)
	}
	next := "0"
	for _, f := range kinds["frame"] {
		if f["partition"] != "fsync-0" || f["frame"] != journal.KindBytes.String() || fmt.Sprint(f["base_offset"]) != next {
			t.Errorf("frame %v, want bytes of fsync-0 from offset %s on", f, next)
		}
		next = fmt.Sprint(f["next_offset"])
	}
	if next != "20" {
		t.Errorf("the frames end at offset %s, want 20", next)
	}
	if kinds, _, err = dumpIn(t, mem, "data/"+tail.FileName); err != nil {
		t.Fatal(err)
	}
	if s := kinds["slot"]; len(s) != 1 || s[0]["partition"] != "os-0" || fmt.Sprintf("%v %v %v", s[0]["batches"], s[0]["base_offset"], s[0]["next_offset"]) != "10 0 10" {
		t.Errorf("slots %v, want one with 10 batches of os-0", s)
	}
	if kinds, _, err = dumpIn(t, mem, "data/oncelog.manifest"); err != nil {
		t.Fatal(err)
	}
	levels := map[string]string{}
	for _, topic := range kinds["topic"] {
		levels[topic["topic"].(string)] = topic["durability"].(string)
	}
	if levels["os"] != "os" || levels["fsync"] != "default" || len(kinds["in_use"]) != 1 || kinds["in_use"][0]["journal"] != true {
		t.Errorf("topics %v, in use %v", kinds["topic"], kinds["in_use"])
	}
	flip(t, mem, "data/"+journal.Name, 2*4096+100)
	if kinds, _, err = dumpIn(t, mem, "data/"+journal.Name); exitCode(err) != exitDamaged || len(kinds["damage"]) != 1 {
		t.Errorf("a damaged journal: status %d, %v", exitCode(err), kinds)
	}
}
