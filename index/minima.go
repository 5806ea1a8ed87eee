package index

import (
	"encoding/binary"
	"math"
)

// A node of the minima covers fan nodes of the level below, or fan entries on
// the lowest. Six levels keep the search short up to sixteen million entries
// in one segment; beyond, the nodes of the highest are walked.
const (
	fanBits       = 4
	fan           = 1 << fanBits
	levelsMax     = 6
	minimumSize   = 8
	minimumAbsent = math.MaxInt64
)

// minima answers which of a range of aborted transactions begin below an
// offset, without looking at all. The markers are in order, so binary search
// gives the end of a range, but first offsets are not: while one long
// transaction is open, any number of short ones pass through the last stable
// offset it holds down, and a read from before them would have to walk all to
// meet the long one at the end. So the smallest first offset of every block of
// 16 entries is kept, of every 16 blocks, and so on; what is above is skipped
// whole.
//
// A node is written when its last entry is, before that entry is published,
// and never again. A reader that saw n entries touches only nodes that are
// whole within n. So the order of type file holds here too, although the
// levels are plain pointers: a level is made for its first node.
type minima struct {
	levels [levelsMax]*file // of minimumSize each; level k: one node per fan^(k+1) entries
}

// add writes the nodes that entry i of entries, readable but perhaps not
// published, completes. For the writer only.
func (m *minima) add(entries *file, i int) {
	for level := range m.levels {
		if (i+1)&(1<<blockBits(level)-1) != 0 {
			return
		}
		if m.levels[level] == nil {
			m.levels[level] = &file{entrySize: minimumSize}
		}
		nodes := m.levels[level]
		lowest := int64(minimumAbsent)
		for j := range fan {
			child := nodes.len()<<fanBits + j
			if level == 0 {
				lowest = min(lowest, firstAt(entries, child))
			} else {
				lowest = min(lowest, m.node(level-1, child))
			}
		}
		binary.BigEndian.PutUint64(nodes.slot(), uint64(lowest))
		nodes.publish()
	}
}

// nextBelow finds the first entry of [i, end) that begins below upper; if
// there is none the answer is end or above. n is how many entries the caller
// may touch.
func (m *minima) nextBelow(entries *file, i, end, n int, upper int64) int {
	for i < end {
		skip := 0
		for level := range m.levels {
			size := 1 << blockBits(level)
			if i&(size-1) != 0 || i+size > n || m.node(level, i>>blockBits(level)) < upper {
				break
			}
			skip = size
		}
		if skip == 0 {
			if firstAt(entries, i) < upper {
				return i
			}
			skip = 1
		}
		i += skip
	}
	return i
}

// lowest is the smallest first offset of the first n entries.
func (m *minima) lowest(entries *file, n int) int64 {
	lowest := int64(minimumAbsent)
	for i := 0; i < n; {
		level := -1
		for level+1 < levelsMax && i&(1<<blockBits(level+1)-1) == 0 && i+1<<blockBits(level+1) <= n {
			level++
		}
		if level < 0 {
			lowest = min(lowest, firstAt(entries, i))
			i++
			continue
		}
		lowest = min(lowest, m.node(level, i>>blockBits(level)))
		i += 1 << blockBits(level)
	}
	return lowest
}

func (m *minima) node(level, j int) int64 {
	return int64(binary.BigEndian.Uint64(m.levels[level].entry(j)))
}

// blockBits is the logarithm of the number of entries a node covers.
func blockBits(level int) int { return fanBits * (level + 1) }

func firstAt(entries *file, i int) int64 {
	return int64(binary.BigEndian.Uint64(entries.entry(i)[posTxnFirst:]))
}
