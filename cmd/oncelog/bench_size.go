package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are what a size may end in.
var sizeUnits = []struct {
	name  string
	shift int
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}

// parseSize reads a number of bytes, such as 100, 16KiB or 1.5GiB.
func parseSize(text string) (int64, error) {
	number, shift := strings.TrimSpace(text), 0
	for _, u := range sizeUnits {
		if rest, found := strings.CutSuffix(number, u.name); found {
			number, shift = rest, u.shift
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	size := v * float64(int64(1)<<shift)
	if err != nil || math.IsNaN(size) || size < 0 || size >= 1<<62 || size != math.Trunc(size) {
		return 0, fmt.Errorf("%q is no size; write bytes, or KiB, MiB, GiB, TiB: 100, 16KiB, 1.5GiB", text)
	}
	return int64(size), nil
}

// sizeFlag is a flag that takes a size.
type sizeFlag struct{ size *int64 }

func (f sizeFlag) Type() string { return "size" }

func (f sizeFlag) String() string {
	if f.size == nil || *f.size == 0 {
		return ""
	}
	return strconv.FormatInt(*f.size, 10)
}

func (f sizeFlag) Set(text string) (err error) {
	*f.size, err = parseSize(text)
	return err
}

// intSizeFlag is a flag that takes a size which fits an int.
type intSizeFlag struct{ size *int }

func (f intSizeFlag) Type() string { return "size" }

func (f intSizeFlag) String() string {
	if f.size == nil || *f.size == 0 {
		return ""
	}
	return strconv.Itoa(*f.size)
}

func (f intSizeFlag) Set(text string) error {
	size, err := parseSize(text)
	if err == nil && size > math.MaxInt32 {
		err = fmt.Errorf("%s is too much", text)
	}
	*f.size = int(size)
	return err
}
