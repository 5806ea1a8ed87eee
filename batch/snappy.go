package batch

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/klauspost/compress/s2"
)

// Kafka frames snappy as the xerial library for Java does:
//
//	82 "SNAPPY" 00   version   compatible   ( length   raw block )*
//	8 bytes          int32=1   int32=1        int32    length bytes
//
// and takes data without that header as one raw block.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = 16
	xerialBlockSize  = 32 << 10 // uncompressed bytes that Java puts in a block

	// snappyRatioMax: three bytes can copy 64, nothing in the format does more.
	snappyRatioMax = 22
)

var (
	errXerialVersion = errors.New("xerial stream of an unknown version")
	errSnappyBlock   = errors.New("invalid snappy block")
)

func snappyDecompress(dst, src []byte, limit int) ([]byte, error) {
	most := len(dst) + limit
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		return snappyBlock(dst, src, most)
	}
	for len(src) > 0 {
		// A header may come again where a length would be: streams that were
		// concatenated. As a length it would be negative.
		if len(src) >= xerialHeaderSize && string(src[:len(xerialMagic)]) == xerialMagic {
			if int32(binary.BigEndian.Uint32(src[len(xerialMagic):])) < 1 {
				return dst, errXerialVersion
			}
			src = src[xerialHeaderSize:]
			continue
		}
		if len(src) < 4 {
			return dst, errTruncated
		}
		size := int64(int32(binary.BigEndian.Uint32(src)))
		src = src[4:]
		if size < 0 || size > int64(len(src)) {
			return dst, errTruncated
		}
		var err error
		if dst, err = snappyBlock(dst, src[:size], most); err != nil {
			return dst, err
		}
		src = src[size:]
	}
	return dst, nil
}

// snappyBlock appends one raw block, which claims its decompressed size in
// front: believed only as far as the bytes behind it can make it true.
func snappyBlock(dst, src []byte, most int) ([]byte, error) {
	claim, n := binary.Uvarint(src)
	switch {
	case n <= 0 || n > 5 || claim > math.MaxUint32 || claim > uint64(len(src)-n)*snappyRatioMax:
		return dst, errSnappyBlock
	case claim > uint64(most-len(dst)):
		return dst, ErrDecompressedTooLarge
	}
	if !snappyStrict(src[n:]) {
		return dst, errSnappyBlock
	}
	dst = grow(dst, int(claim), most)
	if _, err := s2.Decode(dst[len(dst):len(dst):cap(dst)], src); err != nil {
		return dst, errSnappyBlock
	}
	return dst[:len(dst)+int(claim)], nil
}

// snappyStrict tells whether no copy in the block has offset 0: in s2, whose
// fast decoder we use, that repeats the last offset, in snappy it is an error,
// and a consumer in Java would stop at it. Other errors are left to the decoder.
func snappyStrict(src []byte) bool {
	for s := 0; s < len(src); {
		tag := src[s]
		switch tag & 3 {
		case 0:
			size := int(tag >> 2)
			s++
			if extra := size - 59; extra > 0 {
				if s+extra > len(src) {
					return true
				}
				size = 0
				for i := extra - 1; i >= 0; i-- {
					size = size<<8 | int(src[s+i])
				}
				s += extra
			}
			if size < 0 || size >= len(src)-s {
				return true
			}
			s += size + 1
		case 1:
			if s+1 < len(src) && tag&0xe0 == 0 && src[s+1] == 0 {
				return false
			}
			s += 2
		case 2:
			if s+2 < len(src) && src[s+1]|src[s+2] == 0 {
				return false
			}
			s += 3
		default:
			if s+4 < len(src) && src[s+1]|src[s+2]|src[s+3]|src[s+4] == 0 {
				return false
			}
			s += 5
		}
	}
	return true
}

func snappyCompress(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockSize)]
		src = src[len(block):]
		room := 4 + s2.MaxEncodedLen(len(block))
		dst = grow(dst, room, math.MaxInt)
		pos := len(dst)
		raw := s2.EncodeSnappy(dst[pos+4:pos+4:pos+room], block)
		dst = dst[:pos+4+len(raw)]
		binary.BigEndian.PutUint32(dst[pos:], uint32(len(raw)))
	}
	return dst
}
