package topic

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// Names of directories, as brokers make them.
func TestParseDir(t *testing.T) {
	longest := strings.Repeat("x", NameBytesMax)
	for name, want := range map[string]Partition{
		"orders-0":             {"orders", 0},
		"orders-12":            {"orders", 12},
		"a-b-3":                {"a-b", 3},
		"a--3":                 {"a-", 3},
		"--3":                  {"-", 3},
		"1-2":                  {"1", 2},
		"a.b_C-7":              {"a.b_C", 7},
		"...-0":                {"...", 0},
		"t-2147483647":         {"t", math.MaxInt32},
		"__consumer_offsets-4": {ConsumerOffsets, 4},
		"t-future-1":           {"t-future", 1},
		longest + "-0":         {longest, 0},
	} {
		got, err := ParseDir(name)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", name, got, err, want)
		}
		if got.String() != name {
			t.Errorf("%q is written %q", name, got)
		}
	}
}

func TestParseDirRefuses(t *testing.T) {
	for _, name := range []string{
		"", "-", "orders", "orders-", "-0", "orders-x", "orders-00", "orders-01", "orders-+1", "orders- 1", "orders-1 ",
		"orders--1x", "t-2147483648", "t-99999999999999999999", ".-0", "..-0", "a/b-0", "ü-0", "a b-0", "a\x00-0",
		"__cluster_metadata-0", strings.Repeat("x", NameBytesMax+1) + "-0",
		"t-0.0123456789abcdef0123456789abcdef-delete", "t-0.0123456789abcdef0123456789abcdef-stray", "t-0.0123456789abcdef0123456789abcdef-future",
		"lost+found", ".lock", "oncelog.manifest",
	} {
		if got, err := ParseDir(name); !errors.Is(err, ErrNotPartition) {
			t.Errorf("%q: got %+v, %v", name, got, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "0", "-", "_", "...", "a.b", "a_b", "A-Z.9", TransactionState, strings.Repeat("x", NameBytesMax)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"": "empty", ".": `"."`, "..": `".."`, "a/b": `'/'`, "a b": `' '`, "a\n": `'\n'`, "ü": "allowed", "a:b": `':'`,
		strings.Repeat("x", NameBytesMax+1): "250 bytes, at most 249",
	} {
		if err := CheckName(name); !errors.Is(err, ErrInvalidName) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v, want %q in it", name, err, text)
		}
	}
}

func TestPartitionOrder(t *testing.T) {
	want := []Partition{{"a", 0}, {"a", 2}, {"a", 10}, {"a", math.MaxInt32}, {"a-1", 0}, {"b", 0}}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Partition.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c := want[0].Compare(want[0]); c != 0 {
		t.Errorf("a partition compares with itself as %d", c)
	}
}

func TestInternal(t *testing.T) {
	for name, want := range map[string]bool{TransactionState: true, ConsumerOffsets: true, ClusterMetadata: false, "__other": false, "a": false} {
		if got := (Partition{Topic: name}).Internal(); got != want {
			t.Errorf("%s: internal %v, want %v", name, got, want)
		}
	}
}

// Kafka's rule: '.' and '_' are one in the names of its metrics.
func TestCollide(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a.b", "a_b", true}, {"a_b", "a.b", true}, {"a.b_c", "a_b.c", true}, {"._", "..", true},
		{"a.b", "a.b", false}, {"a.b", "a-b", false}, {"a.b", "ab", false}, {"a_b", "A.b", false},
	} {
		if got := Collide(c.a, c.b); got != c.want {
			t.Errorf("%q and %q collide: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// Whatever is read is a partition whose directory has exactly this name.
func FuzzParseDir(f *testing.F) {
	for _, name := range []string{"orders-0", "a--3", "-0", "orders-01", "t-2147483648", "__cluster_metadata-0", "t-0.0123456789abcdef0123456789abcdef-future", "é-1", "a-+1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := ParseDir(name)
		if err != nil {
			if !errors.Is(err, ErrNotPartition) || p != (Partition{}) {
				t.Fatalf("%q: got %+v, %v", name, p, err)
			}
			return
		}
		if p.String() != name || p.Index < 0 || CheckName(p.Topic) != nil {
			t.Fatalf("%q: got %+v", name, p)
		}
	})
}

// A name that is taken is made of the characters that Kafka takes, and names
// directories that are read back.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"", ".", "..", "a", "a-1", "a/b", "é", strings.Repeat("x", NameBytesMax+1)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
		good := len(name) > 0 && len(name) <= NameBytesMax && name != "." && name != ".." &&
			!strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
		err := CheckName(name)
		if good != (err == nil) || err != nil && !errors.Is(err, ErrInvalidName) {
			t.Fatalf("%q: %v", name, err)
		}
		if err != nil {
			return
		}
		p := Partition{Topic: name, Index: 3}
		if got, err := ParseDir(p.String()); name != ClusterMetadata && (err != nil || got != p) {
			t.Fatalf("the directory of %q gives %+v, %v", name, got, err)
		}
	})
}
