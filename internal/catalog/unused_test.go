package catalog

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// Whoever died while journal or tail came into being, or went, leaves a file
// that nobody speaks of. The next one removes it, and nothing else.
func TestUnusedMemoryGoes(t *testing.T) {
	all := []string{journal.Name, tail.FileName, journal.Name + ".tmp", tail.FileName + ".tmp"}
	for _, c := range []struct {
		name  string
		level log.Durability // of an append; 0: there is none
		used  string         // stays until the store closes
	}{
		{"nothing in use", log.DurabilityDefault, ""},
		{"journal in use", log.DurabilityFsync, journal.Name},
		{"tail in use", log.DurabilityOS, tail.FileName},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			o := on(mem)
			o.Direct, o.MemoryBytes, o.JournalBytes, o.TailBytes = false, 1<<20, journal.BytesMin, 256<<10
			s := mustOpen(t, o)
			mustCreate(t, s, "a", TopicConfig{Durability: c.level})
			if c.used != "" {
				mustAppend(t, s, at("a", 0), "x")
			}
			left := mem.KillClone()
			for _, name := range all {
				if name != c.used {
					if err := vfs.Replace(left, filepath.Join(dataDir, name), []byte("unfinished")); err != nil {
						t.Fatal(err)
					}
				}
			}
			o.Log.FS = left
			s = mustOpen(t, o)
			there := func() (names []string) {
				for name := range tree(t, left, dataDir) {
					if slices.Contains(all, filepath.Base(name)) {
						names = append(names, filepath.Base(name))
					}
				}
				return names
			}
			if names := there(); len(names) > 1 || len(names) == 1 && names[0] != c.used {
				t.Errorf("opened with %v, want %q", names, c.used)
			}
			if c.used != "" && !slices.Equal(values(t, s, at("a", 0)), []string{"x"}) {
				t.Errorf("the partition has %v", values(t, s, at("a", 0)))
			}
			mustClose(t, s)
			if names := there(); len(names) > 0 {
				t.Errorf("closed with %v", names)
			}
		})
	}
}

// Without the manifest nobody knows whose appends journal and tail hold: a
// directory that lost it is refused, and left as it is.
func TestManifestGone(t *testing.T) {
	if *direct {
		return // appends leave nothing that a manifest must explain
	}
	for level, name := range map[log.Durability]string{log.DurabilityFsync: journal.Name, log.DurabilityOS: tail.FileName} {
		mem := newMem(t)
		c := mustOpen(t, on(mem))
		mustCreate(t, c, "t", TopicConfig{Durability: level})
		mustAppend(t, c, at("t", 0), "a")
		killed := mem.KillClone()
		manifest, err := vfs.ReadFile(killed, filepath.Join(dataDir, ManifestFile), 1<<20)
		if err == nil {
			err = killed.Remove(filepath.Join(dataDir, ManifestFile))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(on(killed))
		if _, ok := errors.AsType[*ManifestError](err); !ok || !strings.Contains(err.Error(), name) {
			t.Errorf("level %s: opens without a manifest: %v, want a *ManifestError that names %s", level, err, name)
		}
		if err := vfs.Replace(killed, filepath.Join(dataDir, ManifestFile), manifest); err != nil {
			t.Fatal(err)
		}
		again := mustOpen(t, on(killed))
		if got := values(t, again, at("t", 0)); len(got) != 1 || got[0] != "a" {
			t.Errorf("level %s: with the manifest back it has %q, want a", level, got)
		}
	}
}
