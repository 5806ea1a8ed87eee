package sim

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// readOnly are the options to look at a partition in a copy of the directory.
func (h *history) readOnly(mem *vfs.Mem, p *partition) log.Options {
	return log.Options{
		FS: mem, Dir: filepath.Join(dir, p.tp.String()), Partition: p.tp, Config: p.config, OwnOnly: true,
		ReadOnly: true, Now: h.clock, Clean: true,
		Points: log.Points{RecoveryPoint: p.end(), LogStart: p.start, HighWatermark: p.end()},
	}
}

// inspect looks at what a clean close left: Verify finds nothing, and the logs
// alone, without indexes and snapshots, give the same state.
func (h *history) inspect() {
	mem := h.disk.mem.KillClone()
	for _, p := range h.partitions() {
		report, err := log.Verify(context.Background(), h.readOnly(mem, p), log.VerifyOptions{})
		if err != nil {
			h.fail("%s: verify: %v", p.tp, err)
		}
		for _, f := range report.Findings {
			if f.Severity == log.SeverityDamage {
				h.fail("%s: verify finds %+v", p.tp, f)
			}
		}
		h.rebuild(mem, p)
	}
}

// rebuild opens a log without all that can be made again from it.
func (h *history) rebuild(mem *vfs.Mem, p *partition) {
	o := h.readOnly(mem, p)
	entries, err := mem.ReadDir(o.Dir)
	if err != nil {
		h.fail("%s: %v", p.tp, err)
	}
	if _, err := mem.Stat(filepath.Join(o.Dir, segment.FileName(0, segment.KindLog))); err != nil {
		return // its head is gone, and the snapshot with it would be lost for good
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, "index") || strings.HasSuffix(name, ".snapshot") {
			if err := mem.Remove(filepath.Join(o.Dir, name)); err != nil {
				h.fail("%s: %v", p.tp, err)
			}
		}
	}
	o.Clean, o.Points.RecoveryPoint = false, 0
	l, err := log.Load(o)
	if err != nil {
		h.fail("%s does not open without indexes and snapshots: %v", p.tp, err)
	}
	h.scan(p, l)
	h.checkProducers(p, l.Producers(), ", made from its batches alone,")
	h.checkTimes(p, l)
	if found, err := l.Aborted(p.start, p.end()); err != nil || p.start < p.end() && !p.sameAborted(found, p.start, p.end(), p.start) {
		h.fail("%s, made from its batches alone, has aborted transactions %+v (%v), the model %+v", p.tp, found, err, p.state.aborted(p.start, p.end()))
	}
	if f := l.Frontiers(); f.LastStable != p.lastStable(p.start, p.end()) {
		h.fail("%s, made from its batches alone, has %+v", p.tp, f)
	}
	if err := l.Abandon(); err != nil {
		h.fail("%s: %v", p.tp, err)
	}
}
