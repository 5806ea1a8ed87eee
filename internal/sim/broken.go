package sim

import (
	"path/filepath"
	"strings"
	"syscall"

	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// breakSegments lets no segment of a partition be written from now on, until
// mended: what the journal holds of it has to go elsewhere.
func (h *history) breakSegments(p *partition) {
	h.disk.broken = filepath.Join(dir, p.tp.String()) + "/"
	h.count.Broken++
	h.tell("%s cannot be written", p.tp)
}

// mend ends that.
func (h *history) mend() {
	if h.disk.broken != "" {
		h.disk.broken = ""
		h.tell("all can be written again")
	}
}

// isBroken tells whether the segments of a partition cannot be written.
func (h *history) isBroken(p *partition) bool {
	return h.disk.broken != "" && h.disk.broken == filepath.Join(dir, p.tp.String())+"/"
}

// expectedElsewhere is expected for a partition that can be written, while
// another cannot: that one holds nobody up.
func (h *history) expectedElsewhere(err error) bool {
	broken := h.disk.broken
	h.disk.broken = ""
	expected := h.expected(err)
	h.disk.broken = broken
	return expected
}

// refusesWrites is what broken segments make of an operation.
func (d *disk) refusesWrites(op faultfs.Op) error {
	if d.broken == "" || op.Kind != faultfs.Write && op.Kind != faultfs.Sync {
		return nil
	}
	if strings.HasPrefix(op.Name, d.broken) && strings.HasSuffix(op.Name, ".log") {
		return syscall.EIO
	}
	return nil
}
