package batch

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic         = 0xFD2FB528
	zstdSkippable     = 0x184D2A50 // the low four bits are free
	zstdBlockSize     = 128 << 10  // decompressed, at most
	zstdWindowMax     = 128 << 20  // what Kafka's Java clients accept (2^27)
	zstdWindow        = 2 << 20    // of frames we write
	zstdLevelDefault  = 3
	zstdContentAbsent = -1
	// zstdSlack is room behind the output that lets the decoder copy in large
	// steps up to the end, and that no sum of whole blocks fills: a decoder that
	// has filled its room exactly allocates more by itself before it notices.
	zstdSlack = 17
)

var errZstdFrame = errors.New("invalid zstd frame")

// zstdDecoder allocates nothing for output: it stops at the capacity it is
// given, and zstdDecompress decides whether to give more.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(zstdWindowMax),
		zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic("batch: zstd decoder: " + err.Error()) // the options above are constants
	}
	return d
})

func zstdDecompress(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return dst, errTruncated
	}
	size, err := zstdSizeOf(src)
	if err != nil {
		return dst, err
	}
	if size.least > int64(limit) {
		return dst, ErrDecompressedTooLarge
	}
	start := len(dst)
	most := int(min(size.most, int64(limit)+zstdBlockSize)) + zstdSlack
	// The most may be far too high, as each compressed block counts full. So
	// begin with what such data usually makes, and double as long as the output
	// really fills it.
	room := min(most, max(4*len(src), 2*zstdBlockSize)+zstdSlack)
	for {
		dst = grow(dst[:start], room, start+most)
		room = min(most, cap(dst)-start)
		out, err := zstdDecoder().DecodeAll(src, dst[:start:start+room])
		// What the decoder says when it runs out of room is not always that. But
		// then the last block had less room than it might need.
		full := len(out)-start+zstdBlockSize > room || errors.Is(err, zstd.ErrDecoderSizeExceeded)
		switch {
		case err == nil:
			return out, nil
		case full && room < most:
			room = min(most, 2*room-zstdSlack)
		case full && size.most > int64(limit):
			return dst, ErrDecompressedTooLarge
		default:
			return dst, err
		}
	}
}

// zstdSize bounds what data can decompress to, in bytes.
type zstdSize struct{ least, most int64 }

// zstdSizeOf walks the frames and blocks of src by their headers.
func zstdSizeOf(src []byte) (total zstdSize, err error) {
	for len(src) > 0 {
		if len(src) < 4 {
			return total, errTruncated
		}
		magic := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if magic&^15 == zstdSkippable {
			if len(src) < 4 || int64(binary.LittleEndian.Uint32(src)) > int64(len(src)-4) {
				return total, errTruncated
			}
			src = src[4+binary.LittleEndian.Uint32(src):]
			continue
		}
		if magic != zstdMagic {
			return total, errZstdFrame
		}
		var frame zstdSize
		if frame, src, err = zstdFrameSize(src); err != nil {
			return total, err
		}
		total.least += frame.least
		total.most += frame.most
	}
	return total, nil
}

// zstdFrameSize does so for the frame whose magic ends where src begins, and
// returns what comes behind it. A content size in the header is believed as
// far as the blocks can make it true.
func zstdFrameSize(src []byte) (size zstdSize, rest []byte, err error) {
	content, checksum, src, err := zstdFrameHeader(src)
	if err != nil {
		return size, nil, err
	}
	for last := false; !last; {
		if len(src) < 3 {
			return size, nil, errTruncated
		}
		h := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		src = src[3:]
		last = h&1 != 0
		n := int(h >> 3)
		if n > zstdBlockSize {
			return size, nil, errZstdFrame
		}
		switch h >> 1 & 3 {
		case 0: // stored
			size.least += int64(n)
			size.most += int64(n)
		case 1: // one byte repeated
			size.least += int64(n)
			size.most += int64(n)
			n = 1
		case 2:
			size.most += zstdBlockSize
		default:
			return size, nil, errZstdFrame
		}
		if n > len(src) {
			return size, nil, errTruncated
		}
		src = src[n:]
	}
	if checksum {
		if len(src) < 4 {
			return size, nil, errTruncated
		}
		src = src[4:]
	}
	if content != zstdContentAbsent {
		if content < size.least || content > size.most {
			return size, nil, errZstdFrame
		}
		size = zstdSize{content, content}
	}
	return size, src, nil
}

// zstdFrameHeader reads the header behind the magic: the content size, if it
// says so, and whether a checksum ends the frame.
func zstdFrameHeader(src []byte) (content int64, checksum bool, rest []byte, err error) {
	if len(src) < 1 {
		return 0, false, nil, errTruncated
	}
	flags := src[0]
	single := flags&0x20 != 0
	contentBytes := 0
	if flags>>6 != 0 || single {
		contentBytes = 1 << (flags >> 6)
	}
	pos := 1
	if !single {
		pos++ // window
	}
	pos += [...]int{0, 1, 2, 4}[flags&3] // dictionary id
	if len(src) < pos+contentBytes {
		return 0, false, nil, errTruncated
	}
	content = zstdContentAbsent
	switch contentBytes {
	case 1:
		content = int64(src[pos])
	case 2:
		content = int64(binary.LittleEndian.Uint16(src[pos:])) + 256
	case 4:
		content = int64(binary.LittleEndian.Uint32(src[pos:]))
	case 8:
		content = int64(binary.LittleEndian.Uint64(src[pos:]))
		if content < 0 {
			return 0, false, nil, errZstdFrame
		}
	}
	return content, flags&0x04 != 0, src[pos+contentBytes:], nil
}

// zstdEncoders holds one encoder a speed, made when first used.
var zstdEncoders [zstd.SpeedBestCompression + 1]struct {
	once sync.Once
	z    *zstd.Encoder
}

func zstdCompress(dst, src []byte, level int) []byte {
	if level == 0 {
		level = zstdLevelDefault
	}
	speed := zstd.EncoderLevelFromZstd(level)
	e := &zstdEncoders[speed]
	e.once.Do(func() {
		z, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(speed),
			zstd.WithEncoderCRC(false), // the batch has one
			zstd.WithWindowSize(zstdWindow))
		if err != nil {
			panic("batch: zstd encoder: " + err.Error()) // the options above are constants
		}
		e.z = z
	})
	return e.z.EncodeAll(src, dst)
}
