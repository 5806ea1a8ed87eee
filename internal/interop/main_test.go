//go:build interop

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Names of the environment that the tests read.
const (
	workEnv  = "ONCELOG_INTEROP_WORK"  // folder for everything; default: a new temporary one
	keepEnv  = "ONCELOG_INTEROP_KEEP"  // not empty: leave that folder
	childEnv = "ONCELOG_INTEROP_CHILD" // set for the child that appends until it is killed: its directory
)

// kafka is where the scripts, the compiled programs and the brokers of this
// run are.
type kafka struct {
	scripts string
	classes string
	work    string

	mu      sync.Mutex
	brokers []string // folders of brokers ever started
}

var theKafka kafka

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(runChild(dir))
	}
	if err := theKafka.setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		fmt.Fprintln(os.Stderr, "interop: stopped by", <-signals)
		theKafka.tearDown()
		os.Exit(130)
	}()
	code := m.Run()
	theKafka.tearDown()
	os.Exit(code)
}

func (k *kafka) setUp() (err error) {
	k.scripts, err = filepath.Abs("kafka")
	if err != nil {
		return err
	}
	if k.work = os.Getenv(workEnv); k.work == "" {
		if k.work, err = os.MkdirTemp("", "oncelog-interop"); err != nil {
			return err
		}
	}
	k.classes = filepath.Join(k.work, "classes")
	out, err := exec.Command(filepath.Join(k.scripts, "kafka.sh"), "--compile", k.classes).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the Java programs: %w\n%s", err, out)
	}
	return nil
}

// tearDown kills the brokers that still run and removes the files.
func (k *kafka) tearDown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, dir := range k.brokers {
		if out, err := exec.Command(filepath.Join(k.scripts, "broker.sh"), "kill", dir).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("kill the broker in %s: %w\n%s", dir, err, out))
		}
	}
	k.brokers = nil
	if os.Getenv(keepEnv) == "" {
		errs = append(errs, os.RemoveAll(k.work))
	} else {
		fmt.Fprintln(os.Stderr, "interop: files are kept in", k.work)
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	}
}
