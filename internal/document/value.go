package document

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The functions below read a value as it is written. want finishes "give …": what a right
// value looks like. No error says where the value is; the caller knows.

// ParseBool also takes what people write into files and environment variables.
func ParseBool(text, want string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither; give %s", Quote(text), want)
}

// ParseInt reads decimal only, because 010 would be eight otherwise. Underscores may stand
// between digits.
func ParseInt(text, want string) (int64, error) {
	n, err := strconv.ParseInt(Ungroup(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is out of range; give %s", Quote(text), want)
	case err != nil:
		return 0, fmt.Errorf("%s is not a whole number; give %s", Quote(text), want)
	}
	return n, nil
}

// ParseFloat refuses NaN, the infinities and hexadecimal: the first two pass every
// comparison or none.
func ParseFloat(text, want string) (float64, error) {
	x, err := strconv.ParseFloat(Ungroup(text), 64)
	switch {
	case errors.Is(err, strconv.ErrRange), math.IsInf(x, 0):
		return 0, fmt.Errorf("%s is out of range; give %s", Quote(text), want)
	case err != nil, math.IsNaN(x), strings.ContainsAny(text, "xX"):
		return 0, fmt.Errorf("%s is not a number; give %s", Quote(text), want)
	}
	return x + 0, nil // -0 becomes 0, which prints without a sign
}

// Ungroup drops underscores that stand between two digits, as in 10_000_000.
func Ungroup(s string) string {
	if !strings.Contains(s, "_") {
		return s
	}
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '_' && digit(i-1) && digit(i+1) {
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
