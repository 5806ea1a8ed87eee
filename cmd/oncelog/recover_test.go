package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// recoverOf recovers a directory of a file system.
func recoverOf(ctx context.Context, t testing.TB, fsys vfs.FS, dir string) (kinds map[string][]object, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	o, err := newOutput(&out, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	r := &recovery{fs: fsys, dir: dir, out: o, stderr: &errs, watch: recoveryWatch{progress: &progress{}}}
	err = r.run(ctx)
	return objectsByKind(t, out.Bytes()), errs.String(), err
}

// inMemory copies some entries of a directory into memory, as "data".
func inMemory(t testing.TB, dir string, names ...string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.Mkdir("data", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			to := "data" + strings.TrimPrefix(path, dir)
			if e.IsDir() {
				return mem.Mkdir(to, 0o755)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return vfs.WriteTemp(mem, to, b)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// tornInMemory is a small directory with a torn tail.
func tornInMemory(t testing.TB) *vfs.Mem {
	t.Helper()
	return inMemory(t, damagedCopy(t, "torn"), "orders-0", "plain-0", "meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")
}

// logEnds are the log ends of the partitions of tornInMemory, once recovered.
// 68 is where orders-0 is torn; plain-0 lost nothing but noise.
const logEnds = "orders-0 68, plain-0 221"

// wantRecovered recovers a directory after a run that failed, whatever that
// left, and compares the log ends.
func wantRecovered(t *testing.T, mem *vfs.Mem, after string) {
	t.Helper()
	kinds, stderr, err := recoverOf(t.Context(), t, mem, "data")
	if err != nil || stderr != "" {
		t.Fatalf("%s: recovered again: %v, %s", after, err, stderr)
	}
	var ends []string
	for _, p := range kinds["partition"] {
		ends = append(ends, p.text("partition")+" "+p.text("log_end"))
	}
	if got := strings.Join(ends, ", "); got != logEnds {
		t.Fatalf("%s: log ends %s, want %s", after, got, logEnds)
	}
	if kinds, stderr, err := verifyOf(t.Context(), t, mem, "data"); err != nil || stderr != "" || kinds["summary"][0].number(t, "damage") != 0 {
		t.Fatalf("%s: verify: %v, %s, %v", after, err, stderr, kinds["finding"])
	}
}

// The n-th operation fails, or all from then on because the disk is full: the
// error is told, the exit code is 2, and the next run does it.
func TestRecoverWithFaults(t *testing.T) {
	torn := tornInMemory(t)
	writes := []faultfs.Kind{faultfs.Write, faultfs.Allocate}
	for _, c := range []struct {
		name string
		plan func(n int) faultfs.Plan
		step int
		says string
	}{
		{"any-operation", func(n int) faultfs.Plan { return faultfs.FailNth(n, syscall.EIO) }, 1, "input/output error"},
		{"full-disk", func(n int) faultfs.Plan { return faultfs.FailFrom(n, syscall.ENOSPC, writes...) }, 1, "no space left on device"},
		{"short-write", faultfs.ShortWriteNth, 1, "no space left on device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := 0
			for n := 0; ; n += c.step {
				mem := torn.KillClone()
				fsys := faultfs.New(mem, c.plan(n))
				_, _, err := recoverOf(t.Context(), t, fsys, "data")
				switch {
				case err != nil && (exitCode(err) != exitBlind || !strings.Contains(err.Error(), c.says)):
					t.Fatalf("n = %d: exit code %d, %v", n, exitCode(err), err)
				case err != nil:
					failed++
				}
				wantRecovered(t, mem.KillClone(), fmt.Sprint("n = ", n))
				if !fsys.Fired() {
					break
				}
			}
			t.Logf("%d runs failed", failed)
			if failed == 0 {
				t.Error("no run failed")
			}
		})
	}
}

// Told to stop at any moment, it stops, says that nothing is lost, gives the
// directory back, and the next run does the rest.
func TestRecoverStops(t *testing.T) {
	torn := tornInMemory(t)
	stopped, done := 0, 0
	for n := 0; done < 3; n += 2 {
		ctx, cancel := context.WithCancel(t.Context())
		mem := torn.KillClone()
		fsys := faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
			if op.N == n {
				cancel()
			}
			return nil
		}})
		_, _, err := recoverOf(ctx, t, fsys, "data")
		cancel()
		switch {
		case err == nil:
			done++
		case exitCode(err) != exitBlind || !strings.Contains(err.Error(), "stopped: ") || !strings.Contains(err.Error(), "run it again to go on"):
			t.Fatalf("n = %d: exit code %d, %v", n, exitCode(err), err)
		default:
			stopped++
		}
		wantRecovered(t, mem, fmt.Sprint("n = ", n))
	}
	t.Logf("%d runs were stopped", stopped)
	if stopped < 10 {
		t.Errorf("%d runs were stopped", stopped)
	}
}

// A directory that is open is refused, with the process that has it, and stays
// as it is.
func TestRecoverOfOpenDirectory(t *testing.T) {
	dir := copied(t, "unclean/crashed/data")
	s, err := oncelog.Open(dir, oncelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	kinds, stderr, code := runJSON(t, "recover", dir)
	if code != exitBlind || !strings.Contains(stderr, fmt.Sprintf("locked by this process (%d)", os.Getpid())) || len(kinds) != 0 {
		t.Errorf("exit code %d, %s, %v", code, stderr, kinds)
	}
}

// What may not be read or written is named, and not changed; the partitions
// beside it are brought in order.
func TestRecoverWithoutPermission(t *testing.T) {
	for path, want := range map[string]string{
		"data/.lock":                            "data/.lock: permission denied",
		"data/plain-0/00000000000000000203.log": "data/plain-0/00000000000000000203.log: permission denied",
	} {
		mem := tornInMemory(t)
		fsys := faultfs.New(mem, faultfs.Plan{Hook: func(op faultfs.Op) error {
			if (op.Kind == faultfs.Open || op.Kind == faultfs.Lock) && op.Name == path {
				return syscall.EACCES
			}
			return nil
		}})
		kinds, _, err := recoverOf(t.Context(), t, fsys, "data")
		whole := strings.HasSuffix(path, ".lock")
		if exitCode(err) != exitBlind || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "give this user read and write permission") || (len(kinds) == 0) != whole {
			t.Errorf("%s: %v, %v", path, err, kinds)
		}
		wantRecovered(t, mem, path)
	}
	mem := tornInMemory(t)
	_, _, err := recoverOf(t.Context(), t, refusing{FS: mem, list: map[string]error{"data": fs.ErrPermission}}, "data")
	if exitCode(err) != exitBlind || err.Error() != "data: no permission; run as the user that Kafka runs as, or on a copy" {
		t.Errorf("got %v", err)
	}
}

// A copy that Kafka is moving here is Kafka's to recover, so that the directory
// cannot be marked clean.
func TestRecoverBesideUnfinishedMove(t *testing.T) {
	dir := copied(t, "unclean/crashed/data")
	if err := os.Mkdir(filepath.Join(dir, "orders-9.0123456789abcdef0123456789abcdef-future"), 0o755); err != nil {
		t.Fatal(err)
	}
	kinds, stderr, code := runJSON(t, "recover", dir)
	if s := kinds["summary"][0]; code != exitSound || s.text("closed_cleanly") != "false" || s.text("verdict") != "recovered" {
		t.Errorf("exit code %d, %v", code, s)
	}
	if !strings.Contains(stderr, "is not marked clean") {
		t.Errorf("standard error is %q", stderr)
	}
}

// Progress tells the stage and how much was read.
func TestRecoverProgress(t *testing.T) {
	var b bytes.Buffer
	w := &recoveryWatch{progress: &progress{w: &b, started: time.Now().Add(-time.Hour)}}
	w.stage("recover: 3 of 7 partitions")
	w.done()
	w.read(1) // by what the store still does
	if got := b.String(); !strings.Contains(got, "0 MiB  0 MiB/s  recover: 3 of 7 partitions") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q", got)
	}
}

// Where another program wrote over what journal and tail hold, somebody has to
// decide.
func TestRecoverAcceptForeign(t *testing.T) {
	mem := killedStore(t)
	f, err := mem.OpenFile("data/fsync-0/00000000000000000000.log", os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(built(t, 0, nil, "other"), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = recoverOf(t.Context(), t, mem, "data")
	if exitCode(err) != exitBlind || !strings.Contains(err.Error(), "--accept-foreign") {
		t.Fatalf("status %d, %v: want a hint at --accept-foreign", exitCode(err), err)
	}
	var out bytes.Buffer
	o, err := newOutput(&out, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	r := &recovery{fs: mem, dir: "data", out: o, stderr: &out, acceptForeign: true, watch: recoveryWatch{progress: &progress{}}}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends := map[string]string{}
	kinds := objectsByKind(t, out.Bytes())
	for _, p := range kinds["partition"] {
		ends[p["partition"].(string)] = fmt.Sprint(p["log_end"])
	}
	if ends["fsync-0"] != "1" || ends["os-0"] != "0" {
		t.Errorf("the logs end at %v, want 1 and 0: only what is in the segments", ends)
	}
	aside := 0
	for _, e := range kinds["directory_event"] {
		if e["event"] == oncelog.EventSetAside.String() {
			aside++
		}
	}
	if aside != 2 {
		t.Errorf("tells of %d files set aside, want journal and tail: %v", aside, kinds["directory_event"])
	}
}
