package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// flips are bits of a file, by the class of what they hold.
type flips struct {
	class, partition, file string
	bits                   func(content []byte) []int
}

// bytesFrom are all bits of size bytes from each position on.
func bytesFrom(size int, positions ...int) func([]byte) []int {
	return func([]byte) (bits []int) {
		for _, pos := range positions {
			for bit := pos * 8; bit < (pos+size)*8; bit++ {
				bits = append(bits, bit)
			}
		}
		return bits
	}
}

// everyBit are all bits, with that step.
func everyBit(step int) func([]byte) []int {
	return func(content []byte) (bits []int) {
		for bit := 0; bit < len(content)*8; bit += step {
			bits = append(bits, bit)
		}
		return bits
	}
}

// inBatches are the bits [from, to), with that step, of the first batch, the
// last, and some between, each as far as it goes. Package log flips those of
// all.
func inBatches(from, to, step int) func(content []byte) []int {
	return func(content []byte) (bits []int) {
		for pos, i := 0, 0; pos < len(content); i++ {
			size, err := batch.Frame(content[pos:])
			if err != nil {
				panic(err)
			}
			if end := pos + int(size); i%6 == 0 || end == len(content) {
				for bit := from; bit < min(to, int(size)*8); bit += step {
					bits = append(bits, pos*8+bit)
				}
			}
			pos += int(size)
		}
		return bits
	}
}

// inEntries are the bits of bytes [from, to) of every entry of an index.
func inEntries(entrySize, from, to int) func(content []byte) []int {
	return func(content []byte) (bits []int) {
		for pos := 0; pos < len(content); pos += entrySize {
			bits = append(bits, bytesFrom(to-from, pos+from)(nil)...)
		}
		return bits
	}
}

// Every flipped bit of a partition that was closed cleanly makes the exit code
// 1, and a finding names the file.
func TestVerifyFindsFlips(t *testing.T) {
	dir := copied(t, "epochs/data")
	orders := copied(t, "txn/data")
	for _, f := range []flips{
		{"base offset", "ep-0", "00000000000000000000.log", inBatches(0, 8*8, 1)},
		{"batch length", "ep-0", "00000000000000000000.log", inBatches(8*8, 12*8, 1)},
		{"leader epoch", "ep-0", "00000000000000000000.log", inBatches(12*8, 16*8, 1)},
		{"magic and checksum", "ep-0", "00000000000000000000.log", inBatches(16*8, 21*8, 1)},
		{"under the checksum", "ep-0", "00000000000000000000.log", inBatches(21*8, 1<<20, 8*37+3)},
		{"index entry", "orders-0", "00000000000000000150.index", inEntries(8, 4, 8)},
		{"time index entry", "orders-0", "00000000000000000150.timeindex", inEntries(12, 0, 8)},
		{"transaction index", "orders-0", "00000000000000000150.txnindex", everyBit(1)},
		{"snapshot at a roll", "orders-0", "00000000000000000150.snapshot", everyBit(13)},
		{"snapshot at the end", "orders-0", "00000000000000000172.snapshot", everyBit(13)},
		{"version and count of epochs", "ep-0", "leader-epoch-checkpoint", bytesFrom(3, 0)},
		{"topic id", "orders-0", "partition.metadata", bytesFrom(22, 21)},
	} {
		root := dir
		if f.partition == "orders-0" {
			root = orders
		}
		t.Run(strings.ReplaceAll(f.class, " ", "-"), func(t *testing.T) { f.run(t, root) })
	}
}

func (f flips) run(t *testing.T, root string) {
	partition := filepath.Join(root, f.partition)
	verified := partition
	if f.file == "partition.metadata" { // the topic's other partitions contradict
		verified = root
	}
	path := filepath.Join(partition, f.file)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, code := runJSON(t, "verify", verified); code != exitSound {
		t.Fatalf("exit code %d before any flip", code)
	}
	bits := f.bits(content)
	for _, bit := range bits {
		content[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		content[bit/8] ^= 1 << (bit % 8)
		kinds, stderr, code := runJSON(t, "verify", verified)
		if code != exitDamaged || stderr != "" {
			t.Errorf("bit %d of byte %d: exit code %d, %s", bit%8, bit/8, code, stderr)
			continue
		}
		named := false
		for _, found := range kinds["finding"] {
			named = named || found.text("severity") == "damage" && strings.Contains(found.text("path")+found.text("text"), f.file)
		}
		if !named || kinds["summary"][0].text("verdict") != "damaged" {
			t.Errorf("bit %d of byte %d: no damage names the file: %v", bit%8, bit/8, kinds["finding"])
		}
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bits of %s", len(bits), f.file)
	if len(bits) == 0 {
		t.Error("nothing was flipped")
	}
}

// What the epochs say is compared with the batches.
func TestVerifyFindsWrongEpochs(t *testing.T) {
	dir := copied(t, "epochs/data")
	path := filepath.Join(dir, "ep-0", "leader-epoch-checkpoint")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content), "\n")
	if len(lines) < 5 {
		t.Fatalf("too few epochs: %q", lines)
	}
	for i := 3; i < len(lines)-1; i++ { // all entries but the first: what is below that is not known
		epoch, start, _ := strings.Cut(strings.TrimSpace(lines[i]), " ")
		for _, wrong := range []string{"9" + epoch + " " + start, epoch + " " + start + "9", epoch + " 0"} {
			changed := strings.Join(lines[:i], "") + wrong + "\n" + strings.Join(lines[i+1:], "")
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			kinds, _, code := runJSON(t, "verify", dir)
			if code != exitDamaged || len(kinds["finding"]) == 0 || kinds["finding"][0].text("about") != "epochs" {
				t.Errorf("%q instead of %q: exit code %d, %v", wrong, lines[i], code, kinds["finding"])
			}
		}
	}
}

// Points behind the log end, in a directory that was closed cleanly: what lies
// between is lost.
func TestVerifyFindsLostEnd(t *testing.T) {
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
		dir := copied(t, "txn/data")
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(content), "orders 0 172", "orders 0 572", 1)
		if changed == string(content) {
			t.Fatalf("%s: %s", name, content)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		kinds, _, code := runJSON(t, "verify", dir)
		if code != exitDamaged || len(kinds["finding"]) != 1 || kinds["finding"][0].text("partition") != "orders-0" || kinds["finding"][0].text("offset") != "572" {
			t.Errorf("%s: exit code %d, %v", name, code, kinds["finding"])
		}
	}
}
