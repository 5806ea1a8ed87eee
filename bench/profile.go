package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"time"
)

// Files of a directory of profiles.
const (
	cpuProfile   = "cpu.pprof"
	heapProfile  = "heap.pprof"
	mutexProfile = "mutex.pprof"
	blockProfile = "block.pprof"
	traceProfile = "trace.out"
)

// How finely contention is counted: one lock conflict in so many, and one
// wait for each such time spent waiting.
const (
	mutexFraction = 100
	blockRate     = 10 * time.Microsecond
)

// traceMax bounds the execution trace, which grows by megabytes a second.
const traceMax = 10 * time.Second

// Profiles is the recording of all profiles of the process. Recording costs:
// figures taken meanwhile are none. Not safe for concurrent use.
type Profiles struct {
	dir       string
	cpu       *os.File
	trace     *os.File
	traceStop *time.Timer
}

// StartProfiles begins to record into a directory, which is made if it is
// missing. Files in it that have the names of profiles are not replaced:
// fs.ErrExist.
func StartProfiles(dir string) (*Profiles, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{cpuProfile, heapProfile, mutexProfile, blockProfile, traceProfile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%s: %w; name another directory for profiles", filepath.Join(dir, name), os.ErrExist)
		}
	}
	p := &Profiles{dir: dir}
	var err error
	if p.cpu, err = p.file(cpuProfile); err != nil {
		return nil, err
	}
	if p.trace, err = p.file(traceProfile); err != nil {
		return nil, errors.Join(err, p.cpu.Close())
	}
	err = pprof.StartCPUProfile(p.cpu)
	if err == nil {
		if err = trace.Start(p.trace); err != nil {
			pprof.StopCPUProfile()
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.cpu.Close(), p.trace.Close())
	}
	runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(int(blockRate))
	p.traceStop = time.AfterFunc(traceMax, trace.Stop)
	return p, nil
}

func (p *Profiles) file(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(p.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// Stop ends recording and writes what is not written yet.
func (p *Profiles) Stop() error {
	pprof.StopCPUProfile()
	p.traceStop.Stop()
	trace.Stop() // a second time does nothing
	err := errors.Join(p.cpu.Close(), p.trace.Close())
	runtime.GC() // the heap profile is as of the last collection
	for _, one := range []struct{ file, profile string }{{heapProfile, "allocs"}, {mutexProfile, "mutex"}, {blockProfile, "block"}} {
		err = errors.Join(err, p.write(one.file, func(w io.Writer) error { return pprof.Lookup(one.profile).WriteTo(w, 0) }))
	}
	runtime.SetMutexProfileFraction(0)
	runtime.SetBlockProfileRate(0)
	return err
}

func (p *Profiles) write(name string, write func(io.Writer) error) error {
	f, err := p.file(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
