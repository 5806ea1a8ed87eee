//go:build interop

package interop

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// compactedDir is the one partition whose offsets have gaps, rightly.
const compactedDir = "compacted-0"

// dumped is what DumpLogSegments found in one file, in one of its modes.
type dumped struct {
	Dir        string   `json:"dir"`
	File       string   `json:"file"`
	Mode       string   `json:"mode"`
	Batches    int      `json:"batches"`
	Records    int      `json:"records"`
	Entries    int      `json:"entries"`
	Complaints []string `json:"complaints"`
}

// How the tool reports gaps between offsets: a line for the file, one for each
// gap. Kafka 4.4 sees one before the first record of every segment but the
// first.
var (
	gapsPattern     = regexp.MustCompile(`^Non-consecutive offsets in `)
	gapPattern      = regexp.MustCompile(`^  -?\d+ is followed by \d+$`)
	firstGapPattern = regexp.MustCompile(`^  -1 is followed by \d+$`)
)

// real drops reports of gaps that are none, or where gaps are right.
func (d *dumped) real() []string {
	isGap := firstGapPattern.MatchString
	if d.Dir == compactedDir {
		isGap = gapPattern.MatchString
	}
	all := slices.DeleteFunc(slices.Clone(d.Complaints), isGap)
	if !slices.ContainsFunc(all, gapPattern.MatchString) {
		all = slices.DeleteFunc(all, gapsPattern.MatchString)
	}
	return all
}

// judge runs DumpLogSegments over every file of a log directory. It gives the
// complaints, those about gaps in a compacted log aside, and counts.
func (k *kafka) judge(t *testing.T, data string) (complaints []string, c *tally) {
	t.Helper()
	c = new(tally)
	for _, d := range decodeLines[dumped](t, k.script(t, "kafka.sh", "Dump", data)) {
		where := d.Dir + "/" + d.File + " " + d.Mode
		for _, s := range d.real() {
			complaints = append(complaints, where+": "+s)
		}
		kind := filepath.Ext(d.File)
		c.add("DumpLogSegments: "+kind+" files "+d.Mode, 1)
		switch {
		case kind == ".log":
			c.add("DumpLogSegments: batches "+d.Mode, d.Batches)
			c.add("DumpLogSegments: records "+d.Mode, d.Records)
		case d.Mode == "":
			c.add("DumpLogSegments: "+kind+" entries", d.Entries)
		}
	}
	return complaints, c
}

// wantSound fails the test if the tool complains about anything.
func (k *kafka) wantSound(t *testing.T, data string) *tally {
	t.Helper()
	complaints, c := k.judge(t, data)
	var d differences
	for _, s := range complaints {
		d.addf("%s", s)
	}
	d.check(t, "DumpLogSegments complains")
	return c
}

// damage is one way to break a file, and what DumpLogSegments says then.
type damage struct {
	name string
	dir  string
	ext  string
	edit func(b []byte) []byte
	want string // part of a complaint
}

func add32(pos int, n uint32) func(b []byte) []byte {
	return func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[pos:], binary.BigEndian.Uint32(b[pos:])+n)
		return b
	}
}

// firstRecord changes a byte of the first record and makes the checksum right.
func firstRecord(change func(records []byte)) func(b []byte) []byte {
	return func(b []byte) []byte {
		first, err := batch.Parse(b)
		if err != nil {
			panic(err)
		}
		change(first[batch.HeaderSize:])
		binary.BigEndian.PutUint32(first[17:], batch.CRC(first))
		return b
	}
}

// keyVersion makes the key of an internal topic's first record one of a
// version that nobody knows. Its length takes one or two bytes.
func keyVersion(records []byte) {
	pos := 1
	if records[0]&0x80 != 0 {
		pos = 2
	}
	records[pos+4] = 0x7f // behind attributes, the two deltas and the key's length
}

var damages = []damage{
	{"record", "orders-0", ".log", func(b []byte) []byte { b[80] ^= 4; return b }, "isvalid: false"},
	{"checksum", "orders-0", ".log", func(b []byte) []byte { b[17] ^= 1; return b }, "isvalid: false"},
	{"base offset", "orders-0", ".log", func(b []byte) []byte { b[7] += 3; return b }, "Non-consecutive offsets"},
	{"torn tail", "orders-0", ".log", func(b []byte) []byte { return b[:len(b)-5] }, "invalid bytes at the end"},
	{"index offset", "orders-0", ".index", add32(8, 1), "Mismatches in"},
	{"index position", "orders-0", ".index", add32(12, 1), ""},
	{"index length", "orders-0", ".index", func(b []byte) []byte { return b[:len(b)-3] }, "Index file"},
	{"time index timestamp", "orders-0", ".timeindex", add32(4, 1), "Found timestamp mismatch"},
	{"time index offset", "codec-1", ".timeindex", add32(8, 0xffffffff), "indexed offsets are not found in"},
	{"time index order", "orders-0", ".timeindex", func(b []byte) []byte { return append(b, b[12:24]...) }, "Found out of order timestamp"},
	{"aborted transaction version", "orders-0", ".txnindex", func(b []byte) []byte { b[0] = 1; return b }, "version"},
	{"snapshot", "orders-0", ".snapshot", func(b []byte) []byte { b[20] ^= 1; return b }, "corrupt"},
	{"transaction log key", "__transaction_state-0", ".log", firstRecord(keyVersion), "Unknown record type"},
	{"offsets key", "__consumer_offsets-0", ".log", firstRecord(keyVersion), "Unknown record type"},
}

// testJudge shows that the judge sees damage: every kind of it, made on a copy
// of partitions that a broker wrote, is reported, and reported for the file
// that has it; undamaged they are not. The order of the entries of an offset
// index is one thing that the tool does not look at.
func testJudge(t *testing.T, k *kafka, data string) *tally {
	c := k.wantSound(t, data)
	c.add("kinds of damage that DumpLogSegments is shown to report", 0)
	for _, d := range damages {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			root := t.TempDir()
			copyDir(t, filepath.Join(data, d.dir), filepath.Join(root, d.dir))
			name := firstFile(t, filepath.Join(root, d.dir), d.ext)
			writeFile(t, name, d.edit(readFile(t, name)))
			complaints, _ := k.judge(t, root)
			file := d.dir + "/" + filepath.Base(name)
			if !slices.ContainsFunc(complaints, func(s string) bool { return strings.HasPrefix(s, file) && strings.Contains(s, d.want) }) {
				t.Fatalf("damaged %s, no complaint about it with %q among %q", file, d.want, complaints)
			}
			t.Logf("%s: %s", file, complaints[0])
			c.add("kinds of damage that DumpLogSegments is shown to report", 1)
		})
	}
	return c
}

// firstFile is the first file of a kind that is not empty.
func firstFile(t *testing.T, dir, ext string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+ext))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if i, err := os.Stat(name); err == nil && i.Size() > 10 {
			return name
		}
	}
	t.Fatalf("%s: no %s file", dir, ext)
	return ""
}
