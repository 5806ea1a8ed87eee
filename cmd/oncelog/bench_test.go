package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "100": 100, "100B": 100, "1KiB": 1 << 10, "16 KiB": 16 << 10, "1.5GiB": 3 << 29, "2TiB": 2 << 40, " 3MiB ": 3 << 20,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "KiB", "1KB", "1.5", "-1", "-1KiB", "1e30", "NaN", "Inf", "1KiBKiB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// interruptWhen sends the process a signal once what is written to it contains
// a text.
type interruptWhen struct {
	bytes.Buffer
	text   string
	signal syscall.Signal
	sent   bool
}

func (w *interruptWhen) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if !w.sent && strings.Contains(w.String(), w.text) {
		w.sent = true
		return n, syscall.Kill(os.Getpid(), w.signal)
	}
	return n, err
}

// TestBenchInterrupted: told to stop in the middle of a run that would last for
// an hour, it ends with its status, and nothing is left.
func TestBenchInterrupted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "term": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var stdout bytes.Buffer
			// The text comes once the signals are caught.
			stderr := &interruptWhen{text: "at most ", signal: signal}
			code := run([]string{"bench", "append", "--dir", dir, "--length", "1h", "--warmup", "1h"}, &stdout, stderr)
			if code != exitStopped {
				t.Errorf("status %d, want %d: %s", code, exitStopped, stderr.String())
			}
			if !strings.Contains(stderr.String(), "stopped; the figures are of the rounds that were done") {
				t.Errorf("it says %s", stderr.String())
			}
			if _, err := os.Stat(filepath.Join(dir, benchDirName)); !os.IsNotExist(err) {
				t.Errorf("something was left: %v", err)
			}
		})
	}
}
