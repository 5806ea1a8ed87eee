package vfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// crashes is how many clones a test looks at where every outcome must appear.
const crashes = 400

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func evenly(r *rand.Rand) CrashOptions { return CrashOptions{Rand: r, KeepUnsynced: 0.5} }

// wantOutcomes crashes often and checks that exactly the outcomes wanted
// appear.
func wantOutcomes(t *testing.T, fsys *Mem, o CrashOptions, outcome func(*Mem) string, want ...string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, w := range want {
		missing[w] = true
	}
	allowed := strings.Join(want, " | ")
	for range crashes {
		got := outcome(fsys.CrashClone(o))
		if !strings.Contains(" | "+allowed+" | ", " | "+got+" | ") {
			t.Fatalf("a crash leaves %q, allowed are %q", got, allowed)
		}
		delete(missing, got)
	}
	for w := range missing {
		t.Errorf("no crash leaves %q", w)
	}
}

// letters tells the first byte of every page of a file, "-" for zero.
func letters(t *testing.T, name string) func(*Mem) string {
	return func(fsys *Mem) string {
		got := ""
		for i, b := range []byte(contentOf(t, fsys, name)) {
			switch {
			case i%pageSize != 0:
			case b == 0:
				got += "-"
			default:
				got += string(b)
			}
		}
		return got
	}
}

// syncedFile makes a durable file with these letters at the starts of its pages.
func syncedFile(t *testing.T, fsys *Mem, name, letters string) File {
	t.Helper()
	f := create(t, fsys, name)
	must(t, f.Truncate(int64(len(letters))*pageSize))
	putLetters(t, f, letters)
	must(t, f.Sync())
	must(t, fsys.SyncDir("/"))
	return f
}

func putLetters(t *testing.T, f File, letters string) {
	t.Helper()
	for i, b := range letters {
		if b != '-' {
			writeAt(t, f, string(b), int64(i)*pageSize)
		}
	}
}

func TestCrashKeepsAnySubsetOfPages(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	putLetters(t, f, "A-C")
	o := evenly(seeded(1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "abc", "Abc", "abC", "AbC")
	wantOutcomes(t, fsys, CrashOptions{}, letters(t, "f"), "abc")
	wantOutcomes(t, fsys, CrashOptions{KeepUnsynced: KeepAll}, letters(t, "f"), "AbC")
	must(t, f.Datasync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "AbC")
}

func TestCrashKeepsWritesThroughMappings(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	m := mapFile(t, f, 3*pageSize, true)
	m.Bytes()[0] = 'A'
	m.Bytes()[2*pageSize] = 'C'
	o := evenly(seeded(1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "abc", "Abc", "abC", "AbC")
	must(t, m.Sync(2*pageSize+5, 1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "abC", "AbC")
	must(t, f.Datasync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "AbC")
	m.Bytes()[pageSize] = 'B'
	must(t, m.Close())
	wantOutcomes(t, fsys, o, letters(t, "f"), "AbC", "ABC")
	must(t, f.Sync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "ABC")
}

func TestCrashOfGrownFile(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "ab")
	writeAt(t, f, strings.Repeat("c", 2*pageSize), 2*pageSize)
	o := evenly(seeded(1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "ab", "abc", "ab-", "abcc", "abc-", "ab-c", "ab--")
	exact := 0
	for range crashes {
		got := contentOf(t, fsys.CrashClone(o), "f")
		if len(got)%pageSize != 0 {
			exact++
		}
		if strings.Trim(got[2*pageSize:], "c\x00") != "" {
			t.Fatal("bytes from nowhere")
		}
	}
	if exact == 0 || exact == crashes {
		t.Errorf("%d of %d lengths are no whole pages, want some", exact, crashes)
	}
	must(t, f.Datasync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "abcc")
}

// After a crash a longer file must not show what once was behind its end.
func TestCrashShowsZerosBehindTheEnd(t *testing.T) {
	fsys := NewMem()
	f := create(t, fsys, "f")
	must(t, fsys.SyncDir("/"))
	writeAt(t, f, strings.Repeat("x", 1000), 0)
	for seed := range uint64(crashes) {
		clone := fsys.CrashClone(evenly(seeded(seed)))
		g, err := clone.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		size, err := g.Size()
		must(t, err)
		must(t, g.Truncate(2000))
		if got := contentOf(t, clone, "f")[size:]; strings.Trim(got, "\x00") != "" {
			t.Fatalf("seed %d: behind length %d stood %q", seed, size, got)
		}
		must(t, g.Close())
	}
}

func TestCrashOfCutFile(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abcd")
	must(t, f.Truncate(pageSize))
	o := evenly(seeded(1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "abcd", "a")
	// Longer again: either the cut never happened, or the old bytes are gone.
	must(t, f.Truncate(3*pageSize))
	putLetters(t, f, "--C")
	wantOutcomes(t, fsys, o, letters(t, "f"), "abcd", "a", "a-", "a--", "a-C")
	must(t, f.Datasync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "a-C")
}

// The length is stored by the sync of a mapping, and the cut with it.
func TestMappingSyncStoresTheCut(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	must(t, f.Truncate(0))
	must(t, f.Truncate(3*pageSize))
	m := mapFile(t, f, 3*pageSize, true)
	m.Bytes()[0] = 'A'
	must(t, m.Sync(0, 1))
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "A--")
}

func TestCrashTearsPages(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "-")
	writeAt(t, f, strings.Repeat("x", pageSize), 0)
	o := evenly(seeded(1))
	o.Tear = true
	torn := 0
	for range crashes {
		got := contentOf(t, fsys.CrashClone(o), "f")
		for pos := 0; pos < pageSize; pos += sectorSize {
			if s := got[pos : pos+sectorSize]; strings.Trim(s, s[:1]) != "" {
				t.Fatal("a torn sector")
			}
		}
		if strings.Trim(got, got[:1]) != "" {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no page is torn")
	}
}

// What a kernel wrote back between two writes may be there.
func TestWriteBack(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "a")
	putLetters(t, f, "b")
	fsys.WriteBack(CrashOptions{KeepUnsynced: KeepAll})
	putLetters(t, f, "c")
	create(t, fsys, "g")
	o := evenly(seeded(1))
	wantOutcomes(t, fsys, o, letters(t, "f"), "b", "c")
	fsys.WriteBack(CrashOptions{KeepUnsynced: KeepAll})
	wantOutcomes(t, fsys, CrashOptions{}, names(t, "/"), "f g")
	must(t, f.Sync())
	wantOutcomes(t, fsys, o, letters(t, "f"), "c")
}

func TestKillKeepsEverythingWritten(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	m := mapFile(t, f, 3*pageSize, true)
	putLetters(t, f, "A")
	m.Bytes()[pageSize] = 'B'
	must(t, fsys.Rename("f", "g"))
	clone := fsys.KillClone()
	if got := letters(t, "g")(clone); got != "ABc" {
		t.Errorf("after a kill %q", got)
	}
	// Nothing of it is durable yet: a power loss after the kill may lose it.
	wantOutcomes(t, clone, CrashOptions{}, letters(t, "f"), "abc")
	o := evenly(seeded(1))
	o.Dirs = DirOrderPrefix
	wantOutcomes(t, clone, o, names(t, "/"), "f", "g")

	// The two do not share what comes later.
	m.Bytes()[2*pageSize] = 'C'
	g, err := clone.OpenFile("g", os.O_RDWR, 0)
	must(t, err)
	putLetters(t, g, "x")
	must(t, g.Sync())
	if got := letters(t, "g")(fsys); got != "ABC" {
		t.Errorf("the file killed has %q", got)
	}
	if got := letters(t, "g")(clone); got != "xBc" {
		t.Errorf("the clone has %q", got)
	}
	wantOutcomes(t, fsys, CrashOptions{}, letters(t, "f"), "abc")
}

// A failed sync stores some pages and forgets the rest: reads show them, a
// second sync succeeds and does not help, a power loss loses them.
func TestLoseSync(t *testing.T) {
	lost := make(map[string]bool)
	for seed := range uint64(100) {
		fsys := NewMem()
		f := syncedFile(t, fsys, "f", "abc")
		m := mapFile(t, f, 3*pageSize, true)
		putLetters(t, f, "A")
		m.Bytes()[pageSize] = 'B'
		if seed%2 == 0 {
			f.(Loser).LoseSync(evenly(seeded(seed)))
		} else {
			m.(Loser).LoseSync(evenly(seeded(seed)))
		}
		must(t, f.Sync())
		must(t, m.Sync(0, 3*pageSize))
		if got := letters(t, "f")(fsys); got != "ABc" {
			t.Fatalf("reads show %q", got)
		}
		if got := letters(t, "f")(fsys.KillClone()); got != "ABc" {
			t.Fatalf("after a kill reads show %q", got)
		}
		got := letters(t, "f")(fsys.CrashClone(evenly(seeded(seed))))
		lost[got] = true
		// A page written once more is dirty again.
		putLetters(t, f, "A")
		must(t, f.Sync())
		if got := letters(t, "f")(fsys.CrashClone(CrashOptions{})); got[0] != 'A' || got[2] != 'c' {
			t.Fatalf("a page written after the failure is lost: %q", got)
		}
		must(t, m.Close())
	}
	for _, want := range []string{"abc", "Abc", "aBc", "ABc"} {
		if !lost[want] {
			t.Errorf("no sync that fails leaves %q", want)
		}
		delete(lost, want)
	}
	if len(lost) > 0 {
		t.Errorf("impossible: %v", lost)
	}
}

func TestLoseSyncOfTheLength(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "ab")
	putLetters(t, f, "--c")
	f.(Loser).LoseSync(CrashOptions{})
	must(t, f.Sync())
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "ab")
	putLetters(t, f, "---d")
	must(t, f.Sync())
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "ab-d")
	must(t, f.Truncate(pageSize))
	f.(Loser).LoseSync(CrashOptions{})
	must(t, f.Sync())
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "ab-d")
}

// What a failed sync forgot stays forgotten when the file is mapped later, and
// a cut that it stored is not stored again.
func TestLoseSyncThenGoOn(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	putLetters(t, f, "A")
	f.(Loser).LoseSync(CrashOptions{})
	m := mapFile(t, f, 3*pageSize, false)
	must(t, f.Sync())
	must(t, m.Close())
	must(t, f.Sync())
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "abc")

	g := syncedFile(t, fsys, "g", "abc")
	must(t, g.Truncate(0))
	must(t, g.Truncate(3*pageSize))
	putLetters(t, g, "xyz")
	g.(Loser).LoseSync(CrashOptions{KeepUnsynced: KeepAll})
	must(t, g.Truncate(4*pageSize))
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "g"), "xyz", "xyz-")
	must(t, g.Sync())
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "g"), "xyz-")
}

// A write that no system would let pass is found at the next sync or crash.
func TestReadOnlyMappingIsChecked(t *testing.T) {
	fsys := NewMem()
	f := syncedFile(t, fsys, "f", "abc")
	m := mapFile(t, f, 3*pageSize, false)
	putLetters(t, f, "A")
	wantOutcomes(t, fsys, evenly(seeded(1)), letters(t, "f"), "abc", "Abc")
	must(t, f.Sync())
	m.Bytes()[1] = 'x'
	defer func() {
		if recover() == nil {
			t.Error("a write through a read-only mapping is not found")
		}
	}()
	fsys.CrashClone(CrashOptions{})
}

func TestCrashIsDeterministic(t *testing.T) {
	for seed := range uint64(50) {
		fsys := NewMem()
		for i := range 5 {
			f := create(t, fsys, fmt.Sprint("f", i))
			writeAt(t, f, strings.Repeat(fmt.Sprint(i), 30_000), 0)
		}
		one, two := fsys.CrashClone(evenly(seeded(seed))), fsys.CrashClone(evenly(seeded(seed)))
		a, b := names(t, "/")(one), names(t, "/")(two)
		if a != b {
			t.Fatalf("seed %d: %q and %q", seed, a, b)
		}
		for _, name := range strings.Fields(a) {
			if contentOf(t, one, name) != contentOf(t, two, name) {
				t.Fatalf("seed %d: %s differs", seed, name)
			}
		}
	}
}
