package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
)

// killedStore is what the death of a process leaves whose appends are in journal
// and tail only: 20 of topic fsync, 10 of topic os, each in a batch.
func killedStore(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := oncelog.NewMemFS()
	s, err := oncelog.Open("data", oncelog.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]oncelog.TopicConfig{"fsync": {}, "os": {Durability: oncelog.DurabilityOS}} {
		if err := s.CreateTopic(t.Context(), name, c); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		mustWrite(t, s, "fsync", i)
		if i < 10 {
			mustWrite(t, s, "os", i)
		}
	}
	killed := mem.KillClone()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return killed
}

func mustWrite(t testing.TB, s *oncelog.Store, topic string, i int) {
	t.Helper()
	b := batch.Batch(built(t, 0, nil, strings.Repeat("v", 1+i)))
	if _, err := s.Append(t.Context(), oncelog.TopicPartition{Topic: topic}, b, oncelog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

// flip changes a byte of a file.
func flip(t testing.TB, mem *vfs.Mem, path string, pos int64) {
	t.Helper()
	f, err := mem.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// What journal and tail hold counts, and is read.
func TestVerifyMemory(t *testing.T) {
	kinds, stderr, err := verifyOf(t.Context(), t, killedStore(t), "data")
	if err != nil {
		t.Fatalf("%v\n%s\n%v", err, stderr, kinds["finding"])
	}
	want := map[string]string{"fsync-0": "20", "os-0": "10"}
	for _, p := range kinds["partition"] {
		name := p["partition"].(string)
		if fmt.Sprint(p["log_end"]) != want[name] || fmt.Sprint(p["batches"]) != want[name] {
			t.Errorf("%s: %v, want %v batches", name, p, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not looked at: %v", want)
	}
	told := map[string]bool{}
	for _, f := range kinds["finding"] {
		if f["severity"] == "damage" {
			t.Errorf("damage: %v", f)
		}
		told[filepath.Base(f["path"].(string))] = true
	}
	if !told[journal.Name] || !told[tail.FileName] {
		t.Errorf("tells of %v, want journal and tail", told)
	}
}

func TestVerifyMemoryDamaged(t *testing.T) {
	const blocks = 2 * 4096 // of the headers of a journal
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, mem *vfs.Mem)
		text   string
	}{
		{"journal gone", func(t *testing.T, mem *vfs.Mem) {
			if err := mem.Remove("data/" + journal.Name); err != nil {
				t.Fatal(err)
			}
		}, "missing"},
		{"tail gone", func(t *testing.T, mem *vfs.Mem) {
			if err := mem.Remove("data/" + tail.FileName); err != nil {
				t.Fatal(err)
			}
		}, "missing"},
		{"first run", func(t *testing.T, mem *vfs.Mem) { flip(t, mem, "data/"+journal.Name, blocks+100) }, "damaged"},
		{"manifest gone", func(t *testing.T, mem *vfs.Mem) {
			if err := mem.Remove("data/oncelog.manifest"); err != nil {
				t.Fatal(err)
			}
		}, "manifest"},
		{"another program", func(t *testing.T, mem *vfs.Mem) {
			f, err := mem.OpenFile("data/fsync-0/00000000000000000000.log", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(built(t, 0, nil, "other"), 0); err != nil {
				t.Fatal(err)
			}
		}, "another program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := killedStore(t)
			c.damage(t, mem)
			kinds, _, err := verifyOf(t.Context(), t, mem, "data")
			found := false
			for _, f := range kinds["finding"] {
				found = found || f["severity"] == "damage" && strings.Contains(f["text"].(string), c.text)
			}
			if !found || exitCode(err) != exitDamaged {
				t.Errorf("status %d (%v), findings %v; want damage that tells of %q", exitCode(err), err, kinds["finding"], c.text)
			}
		})
	}
}
