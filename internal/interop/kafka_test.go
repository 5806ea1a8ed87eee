//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// programLimit is how long one Java program may take.
const programLimit = 3 * time.Minute

// Configuration of a broker: the cleaner works in the first one only, so that
// what a compacted topic holds can be compared afterwards.
var (
	eagerCleaner = []string{"log.cleaner.backoff.ms=200"}
	idleCleaner  = []string{"log.cleaner.backoff.ms=3600000"}
)

// broker is a running broker of Apache Kafka; dir/data is its log directory.
type broker struct {
	kafka *kafka
	dir   string
	port  int
}

// start starts a broker on a folder, a new one or one that a broker was
// stopped on. It is killed at the end of the test if it still runs.
func (k *kafka) start(t *testing.T, dir string, config []string) *broker {
	t.Helper()
	ports := freePorts(t, 2)
	k.mu.Lock()
	k.brokers = append(k.brokers, dir)
	k.mu.Unlock()
	args := []string{"start", dir, strconv.Itoa(ports[0]), strconv.Itoa(ports[1])}
	k.script(t, "broker.sh", append(args, config...)...)
	return &broker{kafka: k, dir: dir, port: ports[0]}
}

func (b *broker) stop(t *testing.T) {
	t.Helper()
	b.kafka.script(t, "broker.sh", "stop", b.dir)
}

// run runs one of the programs in kafka/src against the broker; it gives what
// the program printed.
func (b *broker) run(t *testing.T, class string, args ...string) []byte {
	t.Helper()
	return b.kafka.script(t, "kafka.sh", append([]string{class, strconv.Itoa(b.port)}, args...)...)
}

func (b *broker) data() string { return filepath.Join(b.dir, "data") }

// script runs a script and gives its standard output. An error fails the test
// with all that it wrote.
func (k *kafka) script(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(k.scripts, name), args...)
	cmd.Env = append(os.Environ(), "CLASSES="+k.classes)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, tail(stderr.Bytes()), tail(stdout.Bytes()))
	}
	t.Logf("%s %s: %.1f s", name, args[0], time.Since(begin).Seconds())
	return stdout.Bytes()
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// decode reads one JSON object that a program printed.
func decode[T any](t *testing.T, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %q", err, tail(b))
	}
	return v
}

// decodeLines reads JSON, one object a line.
func decodeLines[T any](t *testing.T, b []byte) []T {
	t.Helper()
	var all []T
	for line := range bytes.Lines(b) {
		all = append(all, decode[T](t, line))
	}
	return all
}

// freePorts gives ports of 127.0.0.1 that nobody listens on now.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// copyBroker copies the folder of a stopped broker, so that one copy can be
// worked on while the other stays as Kafka left it.
func copyBroker(t *testing.T, from, to string) {
	t.Helper()
	for _, part := range []string{"data", "meta"} {
		copyDir(t, filepath.Join(from, part), filepath.Join(to, part))
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(fmt.Errorf("copy %s: %w", from, err))
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
