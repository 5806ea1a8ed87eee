//go:build race

package vfs

import "unsafe"

// A program may write a mapping while its file is synced, read or cloned, as a
// kernel may write a dirty page back meanwhile. That is no data race of the
// program, so the race detector must not look; the result may be torn, as a
// kernel's may. The directive covers plain loads and stores only: copy, and
// comparing arrays or strings, tell the detector all the same.

// words is a page for loops that would be slow by the byte.
type words [pageSize / 8]uint64

// copyShared is copy.
//
//go:norace
func copyShared(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n == pageSize {
		d, s := (*words)(unsafe.Pointer(unsafe.SliceData(dst))), (*words)(unsafe.Pointer(unsafe.SliceData(src)))
		for i := range d {
			d[i] = s[i]
		}
		return n
	}
	for i := range n {
		dst[i] = src[i]
	}
	return n
}

// samePage compares two pages.
//
//go:norace
func samePage(a, b *page) bool {
	x, y := (*words)(unsafe.Pointer(a)), (*words)(unsafe.Pointer(b))
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// poison fills memory that nobody may look at any more.
//
//go:norace
func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
