package batch

import (
	"encoding/binary"
	"math/bits"
)

// Primes of xxHash32.
const (
	xxhPrime1 uint32 = 2654435761
	xxhPrime2 uint32 = 2246822519
	xxhPrime3 uint32 = 3266489917
	xxhPrime4 uint32 = 668265263
	xxhPrime5 uint32 = 374761393
)

// xxh32 is xxHash32 with seed 0, which LZ4 frames use for their checksums.
func xxh32(b []byte) uint32 {
	h := xxhPrime5
	size := uint32(len(b))
	if len(b) >= 16 {
		p1, p2 := xxhPrime1, xxhPrime2 // variables, because the sums wrap
		v1, v2, v3, v4 := p1+p2, p2, uint32(0), -p1
		for len(b) >= 16 {
			v1 = xxhRound(v1, b)
			v2 = xxhRound(v2, b[4:])
			v3 = xxhRound(v3, b[8:])
			v4 = xxhRound(v4, b[12:])
			b = b[16:]
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += size
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxhPrime3, 17) * xxhPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxhPrime5, 11) * xxhPrime1
	}
	h ^= h >> 15
	h *= xxhPrime2
	h ^= h >> 13
	h *= xxhPrime3
	return h ^ h>>16
}

func xxhRound(v uint32, b []byte) uint32 {
	return bits.RotateLeft32(v+binary.LittleEndian.Uint32(b)*xxhPrime2, 13) * xxhPrime1
}
