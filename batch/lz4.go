package batch

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// An LZ4 frame (version 1.5.1), numbers in little endian:
//
//	magic     FLG   BD    content size   HC   ( length   block   checksum )*   0   checksum
//	4 bytes   1     1     8, if flagged  1      4        length  4, if         4   4, if
//	                                                             flagged           flagged
//
// HC is the second byte of xxHash32 over FLG to content size. The top bit of a
// length marks a block stored as it is. Kafka demands blocks that do not
// depend on each other, and does not verify content size and content checksum.
const (
	lz4Magic = 0x184D2204

	lz4FlagVersion         = 0xC0
	lz4FlagIndependent     = 0x20
	lz4FlagBlockChecksum   = 0x10
	lz4FlagContentSize     = 0x08
	lz4FlagContentChecksum = 0x04
	lz4FlagReserved        = 0x03 // 0x01 would be a dictionary, which Kafka does not know
	lz4Version             = 0x40

	lz4Stored = 1 << 31

	lz4BlockSize    = 64 << 10 // of blocks we write, as Kafka does
	lz4RatioMax     = 255      // one more byte of length can copy 255 more
	lz4LevelDefault = 9        // in Kafka: the fast compressor, all others are slow ones
	lz4LevelMax     = 17
)

var (
	errLZ4Magic     = errors.New("no LZ4 frame")
	errLZ4Header    = errors.New("LZ4 frame header of an unknown kind")
	errLZ4HeaderSum = errors.New("checksum of the LZ4 frame header is wrong")
	errLZ4Dependent = errors.New("LZ4 blocks depend on each other")
	errLZ4Block     = errors.New("invalid LZ4 block")
	errLZ4BlockSum  = errors.New("checksum of an LZ4 block is wrong")
)

// lz4Frame is what a frame's header says.
type lz4Frame struct {
	blockSize   int // of a decompressed block, at most
	blockSum    bool
	contentSum  bool
	headerBytes int
}

func readLZ4Header(src []byte) (f lz4Frame, err error) {
	if len(src) < 7 {
		return f, errTruncated
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return f, errLZ4Magic
	}
	flags, descriptor := src[4], src[5]
	size := descriptor >> 4
	switch {
	case flags&lz4FlagVersion != lz4Version, flags&lz4FlagReserved != 0,
		descriptor&0x8f != 0, size < 4:
		return f, errLZ4Header
	case flags&lz4FlagIndependent == 0:
		return f, errLZ4Dependent
	}
	end := 6
	if flags&lz4FlagContentSize != 0 {
		end += 8
	}
	if len(src) <= end {
		return f, errTruncated
	}
	if byte(xxh32(src[4:end])>>8) != src[end] {
		return f, errLZ4HeaderSum
	}
	return lz4Frame{
		blockSize:   1 << (8 + 2*size), // 4: 64 KiB … 7: 4 MiB
		blockSum:    flags&lz4FlagBlockChecksum != 0,
		contentSum:  flags&lz4FlagContentChecksum != 0,
		headerBytes: end + 1,
	}, nil
}

func lz4Decompress(dst, src []byte, limit int) ([]byte, error) {
	f, err := readLZ4Header(src)
	if err != nil {
		return dst, err
	}
	src = src[f.headerBytes:]
	most := len(dst) + limit
	for {
		if len(src) < 4 {
			return dst, errTruncated
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			break
		}
		stored := size&lz4Stored != 0
		size &^= lz4Stored
		if int64(size) > int64(f.blockSize) {
			return dst, errLZ4Block
		}
		if int64(size) > int64(len(src)) {
			return dst, errTruncated
		}
		block := src[:size]
		src = src[size:]
		if f.blockSum {
			if len(src) < 4 {
				return dst, errTruncated
			}
			if xxh32(block) != binary.LittleEndian.Uint32(src) {
				return dst, errLZ4BlockSum
			}
			src = src[4:]
		}
		if dst, err = f.appendBlock(dst, block, stored, most); err != nil {
			return dst, err
		}
	}
	if f.contentSum && len(src) < 4 {
		return dst, errTruncated
	}
	return dst, nil
}

func (f *lz4Frame) appendBlock(dst, block []byte, stored bool, most int) ([]byte, error) {
	room := len(block)
	if !stored {
		room = min(f.blockSize, lz4RatioMax*len(block))
	}
	dst = grow(dst, room, most)
	pos := len(dst)
	if stored {
		dst = append(dst, block...)
	} else {
		n, err := lz4.UncompressBlock(block, dst[pos:pos+room])
		if err != nil {
			return dst, errLZ4Block
		}
		dst = dst[:pos+n]
	}
	if len(dst) > most {
		return dst, ErrDecompressedTooLarge
	}
	return dst, nil
}

var (
	lz4Fast = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4High = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
)

func lz4Compress(dst, src []byte, level int) ([]byte, error) {
	dst = append(dst, 0x04, 0x22, 0x4d, 0x18, lz4Version|lz4FlagIndependent, 0x40, 0x82)
	var err error
	if level == 0 || level == lz4LevelDefault {
		c := lz4Fast.Get().(*lz4.Compressor)
		dst, err = lz4Blocks(dst, src, c)
		lz4Fast.Put(c)
	} else {
		c := lz4High.Get().(*lz4.CompressorHC)
		c.Level = lz4Depth(level)
		dst, err = lz4Blocks(dst, src, c)
		lz4High.Put(c)
	}
	if err != nil {
		return dst, err
	}
	return append(dst, 0, 0, 0, 0), nil
}

// lz4Depth maps a level to the depth that the compressor searches.
func lz4Depth(level int) lz4.CompressionLevel {
	level = min(max(level, 1), lz4LevelMax)
	return lz4.CompressionLevel(1 << (8 + min(level, 9)))
}

func lz4Blocks[C interface {
	CompressBlock(src, dst []byte) (int, error)
}](dst, src []byte, c C) ([]byte, error) {
	for len(src) > 0 {
		block := src[:min(len(src), lz4BlockSize)]
		src = src[len(block):]
		room := 4 + lz4.CompressBlockBound(len(block))
		dst = grow(dst, room, math.MaxInt)
		pos := len(dst)
		n, err := c.CompressBlock(block, dst[pos+4:pos+room])
		if err != nil {
			return dst, err
		}
		if n == 0 || n >= len(block) {
			n = copy(dst[pos+4:pos+room], block)
			binary.LittleEndian.PutUint32(dst[pos:pos+4], lz4Stored|uint32(n))
		} else {
			binary.LittleEndian.PutUint32(dst[pos:pos+4], uint32(n))
		}
		dst = dst[:pos+4+n]
	}
	return dst, nil
}
