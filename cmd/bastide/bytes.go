package main

import (
	"fmt"
	"strconv"
	"strings"
)

// byteSize is a flag for a number of bytes.
type byteSize int64

// minBytes is the minimum of a byteSize, because the files of a single day take
// more than less would allow.
const minBytes = 16 << 20

// units are the suffixes of a number of bytes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}, {"B", 1},
}

// Set implements [flag.Value].
func (b *byteSize) Set(text string) error {
	number, factor := text, int64(1)
	for _, unit := range units {
		if n, ok := strings.CutSuffix(text, unit.name); ok {
			number, factor = n, unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("%q is not a number of bytes such as 512MiB or 20GiB", text)
	}
	if n*factor < minBytes {
		return fmt.Errorf("%q is less than the minimum of 16MiB", text)
	}
	*b = byteSize(n * factor)
	return nil
}

// String implements [flag.Value].
func (b *byteSize) String() string {
	for _, unit := range units {
		if n := int64(*b); n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.name
		}
	}
	return "0B"
}
