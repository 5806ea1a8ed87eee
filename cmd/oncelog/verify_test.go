package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// verifyOf verifies directories of a file system.
func verifyOf(ctx context.Context, t testing.TB, fsys vfs.FS, dirs ...string) (kinds map[string][]object, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	o, err := newOutput(&out, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	v := &verification{fs: fsys, out: o, stderr: &errs, progress: &progress{}}
	err = v.run(ctx, dirs)
	return objectsByKind(t, out.Bytes()), errs.String(), err
}

// onOpen calls do, once, before the file of that name is opened.
func onOpen(t testing.TB, name string, do func()) vfs.FS {
	t.Helper()
	done := false
	t.Cleanup(func() {
		if !done {
			t.Errorf("%s was never opened", name)
		}
	})
	return faultfs.New(vfs.Machine(), faultfs.Plan{Hook: func(op faultfs.Op) error {
		if op.Kind == faultfs.Open && op.Name == name && !done {
			done = true
			do()
		}
		return nil
	}})
}

// A log directory may be called as a partition is.
func TestVerifyLogDirectoryNamedLikePartition(t *testing.T) {
	dir := filepath.Join(filepath.Dir(copied(t, "txn/data")), "data-0")
	if err := os.Rename(filepath.Join(filepath.Dir(dir), "data"), dir); err != nil {
		t.Fatal(err)
	}
	kinds, _, code := runJSON(t, "verify", dir)
	if n := kinds["summary"][0].number(t, "partitions"); code != exitSound || n != 10 || len(kinds["finding"]) != 0 {
		t.Errorf("exit code %d, %d partitions, %v", code, n, kinds["finding"])
	}
}

// What cannot be read keeps nothing else from being looked at, and its name is
// told.
func TestVerifyGoesOn(t *testing.T) {
	dir := copied(t, "txn/data")
	damaged := filepath.Join(dir, "orders-2/00000000000000000000.log")
	for _, damage := range []bool{false, true} {
		if damage {
			b, err := os.ReadFile(damaged)
			if err != nil {
				t.Fatal(err)
			}
			b[100] ^= 1
			if err := os.WriteFile(damaged, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fsys := refusing{FS: vfs.Machine(),
			open: map[string]error{
				dir + "/orders-0/00000000000000000073.log": fs.ErrPermission,
				dir + "/hang-0/00000000000000000000.index": syscall.EIO,
				dir + "/log-start-offset-checkpoint":       fs.ErrPermission,
			},
			list: map[string]error{dir + "/orders-1": fs.ErrPermission}}
		kinds, stderr, err := verifyOf(t.Context(), t, fsys, dir)
		want := exitBlind
		if damage {
			want = exitDamaged
		}
		if exitCode(err) != want {
			t.Errorf("exit code %d, want %d", exitCode(err), want)
		}
		const permission = ": no permission; run as the user that Kafka runs as, or on a copy\n"
		wantErrors := "oncelog: " + dir + "/log-start-offset-checkpoint" + permission +
			"oncelog: " + dir + "/hang-0/00000000000000000000.index: input/output error\n" +
			"oncelog: " + dir + "/orders-0/00000000000000000073.log" + permission +
			"oncelog: " + dir + "/orders-1" + permission
		if stderr != wantErrors {
			t.Errorf("got %s\nwant %s", stderr, wantErrors)
		}
		s := kinds["summary"][0]
		if len(kinds["partition"]) != 10 || s.number(t, "unfinished") != 3 || s.text("verdict") != map[bool]string{false: "incomplete", true: "damaged"}[damage] {
			t.Errorf("%d partitions, %v", len(kinds["partition"]), s)
		}
	}
}

// Told to stop, verify shows what it has, and gives the exit code 2, be there
// damage or not.
func TestVerifyStops(t *testing.T) {
	dir := copied(t, "txn/data")
	path := filepath.Join(dir, "hang-0/00000000000000000000.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kinds, stderr, err := verifyOf(ctx, t, onOpen(t, filepath.Join(dir, "orders-1/00000000000000000000.log"), cancel), dir)
	if exitCode(err) != exitBlind || !errors.Is(err, errStopped) || stderr != "" {
		t.Errorf("got %v, %s", err, stderr)
	}
	last := kinds["partition"][len(kinds["partition"])-1]
	if last.text("partition") != "orders-1" || last.text("complete") != "false" || len(kinds["partition"]) != 9 {
		t.Errorf("%d partitions, the last is %v", len(kinds["partition"]), last)
	}
	if s := kinds["summary"][0]; s.text("verdict") != "damaged" || s.number(t, "unfinished") != 1 || len(kinds["finding"]) == 0 {
		t.Errorf("summary %v, findings %v", s, kinds["finding"])
	}
	// Before it has begun there is nothing to show.
	kinds, _, err = verifyOf(ctx, t, vfs.Machine(), dir)
	if exitCode(err) != exitBlind || kinds["summary"][0].text("verdict") != "incomplete" {
		t.Errorf("got %v, %v", err, kinds["summary"])
	}
}

// Ctrl-C and SIGTERM end the context of a command that asks for it.
func TestInterruptible(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, stop := interruptible(t.Context())
		if err := syscall.Kill(os.Getpid(), signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("%v: not stopped", signal)
		}
		stop()
	}
}

// A directory that somebody opens while it is verified is judged as one in use.
func TestVerifyOfDirectoryOpenedMeanwhile(t *testing.T) {
	dir := copied(t, "txn/data")
	logs, err := filepath.Glob(filepath.Join(dir, "orders-1/*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%q, %v", logs, err)
	}
	torn := logs[len(logs)-1]
	fsys := onOpen(t, filepath.Join(dir, "orders-1/00000000000000000000.log"), func() {
		if err := os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
			t.Error(err)
		}
		f, err := os.OpenFile(torn, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(make([]byte, 100)); err != nil {
			t.Error(err)
		}
	})
	kinds, stderr, err := verifyOf(t.Context(), t, fsys, dir)
	if err != nil || stderr != "" {
		t.Errorf("%v, %s", err, stderr)
	}
	if len(kinds["finding"]) != 1 || kinds["finding"][0].text("about") != "tail" || len(kinds["partition"]) != 10 {
		t.Errorf("found %v", kinds["finding"])
	}
}

// A topic that is deleted while a directory in use is verified is no damage,
// and nothing that could not be looked at.
func TestVerifyOfTopicDeletedMeanwhile(t *testing.T) {
	dir := copied(t, "unclean/crashed/data")
	fsys := onOpen(t, filepath.Join(dir, "orders-1/00000000000000000000.log"), func() {
		for _, name := range []string{"orders-1", "orders-2"} {
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+".0123456789abcdef0123456789abcdef-delete")); err != nil {
				t.Error(err)
			}
		}
	})
	kinds, stderr, err := verifyOf(t.Context(), t, fsys, dir)
	if err != nil || stderr != "" || len(kinds["partition"])+len(kinds["finding"]) < 8 {
		t.Errorf("%v, %s, %v", err, stderr, kinds["finding"])
	}
	for _, f := range kinds["finding"] {
		if f.text("severity") == "damage" {
			t.Errorf("found %v", f)
		}
	}
}

// What oncelog made is missed, and its manifest is verified.
func TestVerifyOfOurDirectory(t *testing.T) {
	dir := t.TempDir()
	s, err := oncelog.Open(dir, oncelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTopic(t.Context(), "ours", oncelog.TopicConfig{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	if kinds, stderr, code := runJSON(t, "verify", dir); code != exitSound || stderr != "" || len(kinds["partition"]) != 3 {
		t.Errorf("in use: exit code %d, %s, %v", code, stderr, kinds)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kinds, stderr, code := runJSON(t, "verify", dir); code != exitSound || stderr != "" || len(kinds["finding"]) != 0 {
		t.Errorf("closed: exit code %d, %s, %v", code, stderr, kinds)
	}
	if err := os.RemoveAll(filepath.Join(dir, "ours-1")); err != nil {
		t.Fatal(err)
	}
	kinds, _, code := runJSON(t, "verify", dir)
	if code != exitDamaged || kinds["finding"][0].text("path") != filepath.Join(dir, "ours-1") || !strings.Contains(kinds["finding"][0].text("text"), "the directory is missing") {
		t.Errorf("partition removed: exit code %d, %v", code, kinds["finding"])
	}
	manifest := filepath.Join(dir, "oncelog.manifest")
	b, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	b[10] ^= 1
	if err := os.WriteFile(manifest, b, 0o644); err != nil {
		t.Fatal(err)
	}
	kinds, _, code = runJSON(t, "verify", dir)
	if code != exitDamaged || kinds["finding"][0].text("path") != manifest {
		t.Errorf("manifest flipped: exit code %d, %v", code, kinds["finding"])
	}
}

// Verify stops when its output takes no more, and says so.
func TestVerifyIntoFullOutput(t *testing.T) {
	for _, format := range []string{formatText, formatJSON} {
		o, err := newOutput(&full{n: 100}, format)
		if err != nil {
			t.Fatal(err)
		}
		v := &verification{fs: vfs.Machine(), out: o, stderr: io.Discard, progress: &progress{}}
		err = v.run(t.Context(), []string{filepath.Join(kafkaDir, "txn/data")})
		if exitCode(err) != exitBlind || !strings.Contains(err.Error(), "write the output: no space left") {
			t.Errorf("%s: got %v", format, err)
		}
	}
}
