package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/vfs"
)

// rows writes one of everything, twice.
func rows(o *output) {
	o.file("a file")
	for _, n := range []int64{1, 1000} {
		o.begin("outer")
		o.int("count", n)
		o.optionalInt("maybe", n, n == 1)
		o.bool("yes", true)
		o.optionalBool("known", false, n == 1)
		o.string("name", "tab\there")
		o.end()
		o.beginChild("inner")
		o.bytes("null", nil)
		o.bytes("empty", []byte{})
		o.bytes("text", []byte("grün\n"))
		o.bytes("binary", []byte{0xff, 0})
		o.decoded("meaning", []byte{1}, map[string]int{"a": 1})
		o.decoded("none", []byte{1}, nil)
		o.object("missing", nil)
		o.end()
	}
}

func TestOutputJSON(t *testing.T) {
	var b bytes.Buffer
	o, err := newOutput(&b, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	rows(o)
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"outer","file":"a file","count":1,"maybe":1,"yes":true,"known":false,"name":"tab\there"}
{"kind":"inner","file":"a file","null":null,"empty":"","text":"6772c3bc6e0a","binary":"ff00","meaning":"01","meaning_decoded":{"a":1},"none":"01"}
{"kind":"outer","file":"a file","count":1000,"maybe":null,"yes":true,"name":"tab\there"}
`
	if got := b.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 4 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOutputText(t *testing.T) {
	var b bytes.Buffer
	o, err := newOutput(&b, formatText)
	if err != nil {
		t.Fatal(err)
	}
	rows(o)
	o.file("another")
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
	want := `a file
COUNT  MAYBE  YES   KNOWN  NAME
    1      1  true  false  "tab\there"
    NULL  EMPTY  TEXT      BINARY  MEANING  NONE  MISSING
    null  ""     "grün\n"  0xff00  {"a":1}  0x01  -
 1000      -  true  -      "tab\there"
    null  ""     "grün\n"  0xff00  {"a":1}  0x01  -

another
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBytesText(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{strings.Repeat("x", 120), `"` + strings.Repeat("x", 120) + `"`},
		{strings.Repeat("x", 121), `"` + strings.Repeat("x", 120) + `"… (121 bytes)`},
		{strings.Repeat("x", 119) + "é", `"` + strings.Repeat("x", 119) + `"… (121 bytes)`},
		{"\x00", "0x00"},
		{strings.Repeat("\x80", 121), "0x" + strings.Repeat("80", 117) + "… (121 bytes)"},
	} {
		if got := bytesText([]byte(c.value)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.value, got, c.want)
		}
	}
}

// full is a writer that takes no more.
type full struct{ n int }

func (f *full) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

// A dump stops when its output takes no more, and says so.
func TestDumpIntoFullOutput(t *testing.T) {
	for _, format := range []string{formatText, formatJSON} {
		var log []byte
		for range 2000 {
			log = batch.AppendMarker(log, batch.Marker{Commit: true})
		}
		mem := memFiles(t, map[string][]byte{"t-0/00000000000000000000.log": log})
		o, err := newOutput(&full{n: 1000}, format)
		if err != nil {
			t.Fatal(err)
		}
		d := &dumper{fs: mem, out: o, stderr: io.Discard, progress: &progress{}, records: true}
		err = d.run([]string{"t-0"})
		if exitCode(err) != exitBlind || !strings.Contains(err.Error(), "write the output: no space left") {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// Progress is for terminals, and only for long work.
func TestProgress(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/no-terminal")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if p := newProgress(file); p.w != nil {
		t.Error("progress into a file")
	}
	if p := newProgress(&bytes.Buffer{}); p.w != nil {
		t.Error("progress into a buffer")
	}
	var b bytes.Buffer
	p := &progress{w: &b, started: time.Now()}
	p.add("a", 1<<20)
	p.done()
	if b.Len() != 0 {
		t.Errorf("progress in the first second: %q", b.String())
	}
	p.started = p.started.Add(-time.Hour)
	p.add("a", 1<<20)
	p.add("a", 1<<20) // too soon after the one before
	p.done()
	if got := b.String(); strings.Count(got, "MiB/s") != 1 || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q", got)
	}
}

func BenchmarkDump(b *testing.B) {
	var log []byte
	for range 1000 {
		var w batch.Builder
		w.Reset(log, batch.Plain)
		for range 10 {
			w.Add(1700000000000, []byte("key"), make([]byte, 100))
		}
		var err error
		if log, err = w.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	mem := vfs.NewMem()
	if err := vfs.WriteTemp(mem, "00000000000000000000.log", log); err != nil {
		b.Fatal(err)
	}
	for _, format := range []string{formatText, formatJSON} {
		b.Run("format="+format, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				o, err := newOutput(io.Discard, format)
				if err != nil {
					b.Fatal(err)
				}
				d := &dumper{fs: mem, out: o, stderr: io.Discard, progress: &progress{}, records: true}
				if err := d.run([]string{"00000000000000000000.log"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
