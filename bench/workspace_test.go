package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWorkspaceRefuses(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a file of somebody": func(dir string) error { return os.WriteFile(filepath.Join(dir, "orders.txt"), nil, 0o644) },
		"a store":            func(dir string) error { return os.Mkdir(filepath.Join(dir, "orders-0"), 0o755) },
		"a trial without mark": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "trial-1"), 0o755)
		},
		"another mark": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, markName), []byte("something else"), 0o644)
		},
		"a file beside ours": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, markName), []byte(markText), 0o644),
				os.WriteFile(filepath.Join(dir, "notes"), []byte("precious"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := listing(t, dir)
			if _, err := OpenWorkspace(dir); !errors.Is(err, ErrNotOurs) {
				t.Errorf("error %v, want ErrNotOurs", err)
			}
			if after := listing(t, dir); after != before {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
	if _, err := OpenWorkspace(filepath.Join(t.TempDir(), "missing", "bench")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is missing: %v", err)
	}
}

func listing(t *testing.T, dir string) (names string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		names += " " + name
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWorkspace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	w, err := OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenWorkspace(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second bench in it: %v", err)
	}
	trial, err := w.trial()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(trial, "data"), make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(1 << 20); err != nil {
		t.Error(err)
	}
	if err := w.Check(1 << 60); !errors.Is(err, ErrDiskSpace) {
		t.Errorf("a million TiB: %v", err)
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(trial); err != nil {
		t.Errorf("what was to be kept: %v", err)
	}
	if w, err = OpenWorkspace(dir); err != nil { // kept, and ours
		t.Fatal(err)
	}
	if _, err := os.Stat(trial); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what an earlier bench left: %v", err)
	}
	stranger := filepath.Join(dir, "stranger") // comes while we work: stays
	if err := os.WriteFile(stranger, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stranger); err != nil {
		t.Error(err)
	}
}
