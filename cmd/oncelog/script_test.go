package main

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"oncelog": main})
}

// TestScripts runs testdata/*.txtar. $KAFKA is the directory with what Kafka
// wrote. Beside the usual commands there are
//
//	exits CODE COMMAND…    run it, it must exit with exactly that code
//	flip FILE POS          flip the lowest bit of the byte at POS
//	cut FILE SIZE          cut the file, or lengthen it with zeros
//	hex FILE DIGITS        make a file of these bytes
//
// and the condition [root].
func TestScripts(t *testing.T) {
	kafka, err := filepath.Abs(kafkaDir)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("KAFKA", kafka)
			return nil
		},
		Condition: func(name string) (bool, error) { return name == "root" && os.Getuid() == 0, nil },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": scriptExits,
			"flip":  scriptFlip,
			"cut":   scriptCut,
			"hex":   scriptHex,
		},
	})
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE POS")
	}
	name := ts.MkAbs(args[0])
	pos, err := strconv.Atoi(args[1])
	ts.Check(err)
	b, err := os.ReadFile(name)
	ts.Check(err)
	b[pos] ^= 1
	ts.Check(os.WriteFile(name, b, 0o644))
}

func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE SIZE")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

func scriptHex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hex FILE DIGITS")
	}
	b, err := hex.DecodeString(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}
