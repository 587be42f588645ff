package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// units are the words for sizes, largest first within each family. Both families are
// offered because both are written, and 10MB is not 10MiB.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"B", 1},
}

var (
	errSizeForm  = errors.New("is not a size")
	errSizeLarge = errors.New("is out of range")
)

// parseSize reads "10MiB", "1.5GB", "512 KiB" or a bare number of bytes. Units may be
// in any case. A fraction that leaves part of a byte is rounded down.
func parseSize(s string) (int64, error) {
	num, unit := s, int64(1)
	for _, u := range units {
		if n := len(s) - len(u.name); n > 0 && strings.EqualFold(s[n:], u.name) {
			num, unit = strings.TrimRight(s[:n], " "), u.bytes
			break
		}
	}
	num = document.Ungroup(num)
	if num == "" || strings.Trim(num, "0123456789.") != "" {
		return 0, errSizeForm
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil {
		if n > math.MaxInt64/unit {
			return 0, errSizeLarge
		}
		return n * unit, nil
	}
	x, err := strconv.ParseFloat(num, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, errSizeForm
	}
	// 2^62 keeps the product clear of the edge, where float64 has no whole numbers.
	if x*float64(unit) >= 1<<62 {
		return 0, errSizeLarge
	}
	return int64(x * float64(unit)), nil
}

// formatSize writes n in the unit that leaves the smallest whole number.
func formatSize(n int64) string {
	best, name := n, "B"
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 && n/u.bytes < best {
			best, name = n/u.bytes, u.name
		}
	}
	return strconv.FormatInt(best, 10) + name
}
