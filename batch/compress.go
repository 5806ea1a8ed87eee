package batch

import (
	"errors"
	"fmt"
	"math"
)

// Codec is how the records of a batch are compressed. Ids 5 to 7 fit in the
// attributes and name nothing.
type Codec uint8

const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is the name Kafka uses.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// DefaultDecompressedMax bounds the decompressed records of one batch, in
// bytes, where no other limit is given.
const DefaultDecompressedMax = 128 << 20

// errTruncated is a cause of ErrCorrupt, as are the errors in the file of each
// codec.
var errTruncated = errors.New("data ends too early")

// Compress appends src, compressed, to dst, framed as Kafka expects it for
// records of magic 2. level counts as Kafka counts for the codec, and 0 is
// Kafka's default: gzip −1 (= 6) and 1–9; lz4 9 (fast) and 1–17; zstd 3, down
// to negative and up to 22; snappy and none have none. A level outside is
// taken as the nearest. Safe for concurrent use.
//
// The error is ErrUnsupportedCodec, wrapped, for a codec that is none.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) {
	switch c {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return gzipCompress(dst, src, level)
	case CodecSnappy:
		return snappyCompress(dst, src), nil
	case CodecLZ4:
		return lz4Compress(dst, src, level)
	case CodecZstd:
		return zstdCompress(dst, src, level), nil
	}
	return dst, fmt.Errorf("%v: %w", c, ErrUnsupportedCodec)
}

// Decompress appends the decompressed src to dst: at most limit bytes (0:
// DefaultDecompressedMax, and never above 2 GiB). Memory grows with what really comes out, and passes
// the limit by one block of the codec at most before it is noticed; zstd blocks
// made to hold nothing but literals can make its decoder double that. Bytes
// behind the end of an LZ4 frame or a gzip member are ignored, as Kafka's
// reader does, unless they are a further member. On error
// dst is returned with its old length. Safe for concurrent use.
//
// Errors, wrapped: ErrDecompressedTooLarge, ErrCorrupt, ErrUnsupportedCodec.
func Decompress(dst, src []byte, c Codec, limit int) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultDecompressedMax
	}
	limit = min(limit, math.MaxInt32)
	start := len(dst)
	var err error
	switch c {
	case CodecNone:
		if len(src) > limit {
			return dst, fmt.Errorf("%d bytes: %w", len(src), ErrDecompressedTooLarge)
		}
		return append(dst, src...), nil
	case CodecGzip:
		dst, err = gzipDecompress(dst, src, limit)
	case CodecSnappy:
		dst, err = snappyDecompress(dst, src, limit)
	case CodecLZ4:
		dst, err = lz4Decompress(dst, src, limit)
	case CodecZstd:
		dst, err = zstdDecompress(dst, src, limit)
	default:
		return dst, fmt.Errorf("%v: %w", c, ErrUnsupportedCodec)
	}
	if err == nil && len(dst)-start > limit {
		err = ErrDecompressedTooLarge
	}
	if err != nil {
		return dst[:start], codecError(c, err)
	}
	return dst, nil
}

// codecError makes what a codec complained about an error of this package.
func codecError(c Codec, err error) error {
	if errors.Is(err, ErrDecompressedTooLarge) {
		return fmt.Errorf("%v: %w", c, err)
	}
	return fmt.Errorf("%v: %w: %w", c, ErrCorrupt, err)
}
