package vfs

import (
	"testing"
)

// names tells the names in a directory, "" if there is no such directory.
func names(t *testing.T, dir string) func(*Mem) string {
	return func(fsys *Mem) string {
		entries, err := fsys.ReadDir(dir)
		if err != nil {
			return "none"
		}
		got := ""
		for i, e := range entries {
			if i > 0 {
				got += " "
			}
			got += e.Name()
		}
		return got
	}
}

func anyOrder(d DirOrder) CrashOptions {
	o := evenly(seeded(1))
	o.Dirs = d
	return o
}

func TestCrashKeepsDirectoryChangesInOrder(t *testing.T) {
	fsys := NewMem()
	for _, name := range []string{"a", "b", "c"} {
		must(t, create(t, fsys, name).Sync())
	}
	wantOutcomes(t, fsys, anyOrder(DirOrderPrefix), names(t, "/"), "", "a", "a b", "a b c")
	wantOutcomes(t, fsys, anyOrder(DirOrderSubset), names(t, "/"), "", "a", "b", "c", "a b", "a c", "b c", "a b c")
	wantOutcomes(t, fsys, CrashOptions{}, names(t, "/"), "")
	wantOutcomes(t, fsys, CrashOptions{KeepUnsynced: KeepAll}, names(t, "/"), "a b c")
	must(t, fsys.SyncDir("/"))
	wantOutcomes(t, fsys, anyOrder(DirOrderAny), names(t, "/"), "a b c")
}

func TestCrashBringsRemovedFileBack(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "ab")
	must(t, f.Close())
	must(t, fsys.Remove("f"))
	wantOutcomes(t, fsys, anyOrder(DirOrderAny), names(t, "/"), "", "f")
	wantOutcomes(t, fsys, CrashOptions{}, letters(t, "f"), "ab")

	// A new file of the name must be one or the other, whole.
	must(t, syncedNoDir(t, fsys, "f", "xy").Close())
	o := anyOrder(DirOrderAny)
	content := func(fsys *Mem) string {
		if names(t, "/")(fsys) == "" {
			return "none"
		}
		return letters(t, "f")(fsys)
	}
	wantOutcomes(t, fsys, o, content, "ab", "xy", "none")
	must(t, fsys.SyncDir("/"))
	wantOutcomes(t, fsys, o, content, "xy")
}

// syncedNoDir makes a file with these letters and syncs it, not its directory.
func syncedNoDir(t *testing.T, fsys *Mem, name, letters string) File {
	t.Helper()
	f := create(t, fsys, name)
	must(t, f.Truncate(int64(len(letters))*pageSize))
	putLetters(t, f, letters)
	must(t, f.Sync())
	return f
}

// A rename over a name leaves the old or the new file there, never neither.
func TestCrashOfRename(t *testing.T) {
	for _, order := range []DirOrder{DirOrderPrefix, DirOrderSubset, DirOrderAny} {
		fsys := NewMem()
		syncedFile(t, fsys, "f", "ab")
		syncedNoDir(t, fsys, "f.tmp", "xy")
		must(t, fsys.Rename("f.tmp", "f"))
		o := anyOrder(order)
		wantOutcomes(t, fsys, o, letters(t, "f"), "ab", "xy")
		wantOutcomes(t, fsys, o, names(t, "/"), "f", "f f.tmp")
		must(t, fsys.SyncDir("/"))
		wantOutcomes(t, fsys, o, letters(t, "f"), "xy")
		wantOutcomes(t, fsys, o, names(t, "/"), "f")
	}
}

// A file is never at two names.
func TestCrashOfRenameChain(t *testing.T) {
	fsys := NewMem()
	syncedFile(t, fsys, "a", "x")
	must(t, fsys.Rename("a", "b"))
	must(t, fsys.Rename("b", "c"))
	wantOutcomes(t, fsys, anyOrder(DirOrderPrefix), names(t, "/"), "a", "b", "c")
	wantOutcomes(t, fsys, anyOrder(DirOrderSubset), names(t, "/"), "a", "b", "c")
}

// The promise of Replace, at every moment.
func TestReplaceSurvivesCrash(t *testing.T) {
	fsys := NewMem()
	must(t, Replace(fsys, "f", []byte("old")))
	must(t, WriteTemp(fsys, "f.tmp", []byte("new content")))
	o := anyOrder(DirOrderAny)
	read := func(fsys *Mem) string { return contentOf(t, fsys, "f") }
	wantOutcomes(t, fsys, o, read, "old")
	must(t, fsys.Rename("f.tmp", "f"))
	wantOutcomes(t, fsys, o, read, "old", "new content")
	must(t, fsys.SyncDir("."))
	wantOutcomes(t, fsys, o, read, "new content")
}

// A directory that was not synced into its parent takes what is in it along,
// synced or not.
func TestCrashOfNewDirectory(t *testing.T) {
	fsys := NewMem()
	must(t, fsys.Mkdir("d", 0o755))
	must(t, create(t, fsys, "d/f").Sync())
	must(t, fsys.SyncDir("d"))
	o := anyOrder(DirOrderAny)
	wantOutcomes(t, fsys, o, names(t, "d"), "none", "f")
	must(t, fsys.SyncDir("/"))
	create(t, fsys, "d/g")
	wantOutcomes(t, fsys, o, names(t, "d"), "f", "f g")

	must(t, fsys.Rename("d", "d-delete"))
	must(t, fsys.Remove("d-delete/f"))
	must(t, fsys.Remove("d-delete/g"))
	must(t, fsys.Remove("d-delete"))
	wantOutcomes(t, fsys, CrashOptions{}, names(t, "d"), "f")
	wantOutcomes(t, fsys, o, names(t, "/"), "", "d", "d-delete")
	must(t, fsys.SyncDir("/"))
	wantOutcomes(t, fsys, o, names(t, "/"), "")
}

func TestLoseSyncDir(t *testing.T) {
	fsys := NewMem()
	create(t, fsys, "a")
	must(t, fsys.SyncDir("/"))
	create(t, fsys, "b")
	fsys.LoseSyncDir("/", CrashOptions{})
	must(t, fsys.SyncDir("/"))
	create(t, fsys, "c")
	must(t, fsys.SyncDir("/"))
	wantNames(t, fsys, "/", "a b c")
	wantOutcomes(t, fsys, anyOrder(DirOrderAny), names(t, "/"), "a c")
}
