package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is where figures were measured. What cannot be found out is empty.
type Machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`      // that the program may use
	GOMAXPROCS int     `json:"gomaxprocs"` // and does
	Arch       string  `json:"arch"`
	OS         string  `json:"os"`
	Kernel     string  `json:"kernel"`
	Go         string  `json:"go"`
	Memory     int64   `json:"memory_bytes"`
	FileSystem string  `json:"file_system"` // type, such as ext4
	Mount      string  `json:"mount"`       // its options
	Device     string  `json:"device"`      // name, such as nvme0n1
	Model      string  `json:"model"`       // of the device
	Rotational bool    `json:"rotational"`
	WriteCache string  `json:"write_cache"`  // as the kernel takes the device to be: write back needs flushes
	FlushP50   float64 `json:"flush_p50_us"` // 4 KiB written and flushed on a written file
	FlushP99   float64 `json:"flush_p99_us"`
}

// ThisMachine finds out what the machine is, and how long a flush takes in the
// workspace (about 100 of them).
func ThisMachine(ctx context.Context, w *Workspace) (Machine, error) {
	m := Machine{
		CPU: cpuModel(readText("/proc/cpuinfo")), Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		Arch: runtime.GOARCH, OS: runtime.GOOS, Go: runtime.Version(), Memory: memoryOf(readText("/proc/meminfo")),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var s unix.Stat_t
	if absolute, err := filepath.Abs(w.dir); err == nil && unix.Stat(absolute, &s) == nil {
		id := uint64(s.Dev)
		m.describeDevice(readText("/proc/self/mountinfo"), absolute, unix.Major(id), unix.Minor(id))
	}
	return m, m.measureFlush(ctx, w)
}

// readText reads a small file; "" if it cannot be read.
func readText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// cpuModel finds the model in the text of /proc/cpuinfo, which for arm64 has
// numbers only.
func cpuModel(text string) string {
	part := ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			return strings.TrimSpace(value)
		case "CPU implementer", "CPU part":
			part = strings.TrimSpace(part + " " + strings.TrimSpace(value))
		}
		if strings.TrimSpace(line) == "" && part != "" {
			break
		}
	}
	return part
}

// memoryOf finds the size of the memory in the text of /proc/meminfo.
func memoryOf(text string) int64 {
	return field(text, "MemTotal:") << 10
}

// field finds the number behind a name at the start of a line; 0 if there is
// none.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		n := int64(0)
		for _, c := range strings.TrimSpace(rest) {
			if c < '0' || c > '9' {
				break
			}
			n = n*10 + int64(c-'0')
		}
		return n
	}
	return 0
}

// mount is a line of /proc/self/mountinfo.
type mount struct {
	point, kind, source, options string
}

// mountOf finds the mount that a path lies in: the last of the longest.
func mountOf(text, path string) (found mount) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		split := slices.Index(fields, "-")
		if split < 6 || len(fields) < split+3 {
			continue
		}
		point := unescapeMount(fields[4])
		inside := path == point || strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/")
		if !inside || len(point) < len(found.point) {
			continue
		}
		found = mount{point: point, options: fields[5], kind: fields[split+1], source: unescapeMount(fields[split+2])}
	}
	return found
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (m *Machine) describeDevice(mounts, path string, major, minor uint32) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	on := mountOf(mounts, path)
	m.FileSystem, m.Mount, m.Device = on.kind, on.options, filepath.Base(on.source)
	dir, err := filepath.EvalSymlinks(deviceLink(major, minor))
	if err != nil {
		return // not on a block device of its own
	}
	m.Device = filepath.Base(dir)
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir) // the disk has the facts
	}
	m.Model = strings.TrimSpace(readText(filepath.Join(dir, "device/vendor")) + " " + readText(filepath.Join(dir, "device/model")))
	m.Rotational = readText(filepath.Join(dir, "queue/rotational")) == "1"
	m.WriteCache = readText(filepath.Join(dir, "queue/write_cache"))
}

// Flushes of measureFlush.
const machineFlushes = 100

func (m *Machine) measureFlush(ctx context.Context, w *Workspace) error {
	dir, err := w.trial()
	if err != nil {
		return err
	}
	f := rawFlush{circle: circle{name: filepath.Join(dir, "flush"), state: Written}}
	if err := f.open(ctx); err != nil {
		return err
	}
	defer f.close()
	histogram, block := newHistogram(), make([]byte, 4096)
	for range machineFlushes {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		if err := f.append(ctx, writer{}, block); err != nil {
			return err
		}
		record(histogram, time.Since(start))
	}
	l := latencyOf(histogram)
	m.FlushP50, m.FlushP99 = l.P50, l.P99
	return nil
}

// deviceLink is where the kernel describes a block device.
func deviceLink(major, minor uint32) string {
	return "/sys/dev/block/" + strconv.FormatUint(uint64(major), 10) + ":" + strconv.FormatUint(uint64(minor), 10)
}
