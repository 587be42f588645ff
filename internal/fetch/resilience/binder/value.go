package binder

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// want finishes "give …": what a right value looks like.
func (f *field) want() string {
	between := fmt.Sprintf("from %s to %s", number(f.min), number(f.max))
	switch f.ref(sample()).(type) {
	case *bool:
		return "true or false"
	case *string:
		return fmt.Sprintf("a name of 1 to %d printable bytes", maxName)
	case *BackoffType:
		return "one of none, constant, linear, exponential, decorrelatedJitter"
	case *[]int:
		return "a list of statuses " + between
	case *time.Duration:
		if f.unit == time.Second {
			return "a number of seconds " + between
		}
		return "a number of milliseconds " + between
	}
	return "a whole number " + between
}

// sample has every section, so that every field can be asked for its kind.
func sample() *Model {
	m := new(Model)
	for _, s := range sections() {
		s.create(m)
	}
	return m
}

// number writes a bound or a value without an exponent.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// store parses text and puts it where v points. The error says what is wrong with it, and
// what to give instead.
func (f *field) store(v any, text string) error {
	switch v := v.(type) {
	case *bool:
		return f.storeBool(v, text)
	case *int:
		return f.storeInt(v, text)
	case *time.Duration:
		return f.storeDuration(v, text)
	case *BackoffType:
		return f.storeType(v, text)
	case *string:
		if text == "" || len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%s is no name; give %s", quote(text), f.want())
		}
		*v = text
	case *[]int: // only the default comes as one text
		for item := range strings.SplitSeq(text, ",") {
			var code int
			if err := f.storeInt(&code, item); err != nil {
				return err
			}
			*v = append(*v, code)
		}
	}
	return nil
}

// storeBool also takes the words that YAML files were long used to.
func (f *field) storeBool(v *bool, text string) error {
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		*v = true
	case "false", "no", "off":
		*v = false
	default:
		return fmt.Errorf("%s is neither; give %s", quote(text), f.want())
	}
	return nil
}

func (f *field) storeInt(v *int, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	x, ok := real(text)
	switch {
	case !ok:
		return fmt.Errorf("%s is not a number; give %s", quote(text), f.want())
	case x < f.min || x > f.max:
		return f.outside(x, text)
	case err != nil:
		return fmt.Errorf("%s is not a whole number in digits; give %s", quote(text), f.want())
	}
	*v = int(n)
	return nil
}

// storeDuration reckons in float64, which is exact to the nanosecond within the bounds.
func (f *field) storeDuration(v *time.Duration, text string) error {
	x, ok := real(text)
	switch {
	case !ok:
		return fmt.Errorf("%s is not a number; give %s", quote(text), f.want())
	case x < f.min || x > f.max:
		return f.outside(x, text)
	}
	*v = time.Duration(math.Round(x * float64(f.unit)))
	return nil
}

func (f *field) outside(x float64, text string) error {
	if x < f.min {
		return fmt.Errorf("%s is below %s; give %s", quote(text), number(f.min), f.want())
	}
	return fmt.Errorf("%s is above %s; give %s", quote(text), number(f.max), f.want())
}

// storeType leaves hyphens, underscores and case out of account.
func (f *field) storeType(v *BackoffType, text string) error {
	for _, t := range []BackoffType{BackoffNone, BackoffConstant, BackoffLinear, BackoffExponential, BackoffDecorrelated} {
		if plain(string(t)) == plain(text) {
			*v = t
			return nil
		}
	}
	return fmt.Errorf("%s is not a type; give %s", quote(text), f.want())
}

// real is the number a text says in decimal; one too large to be kept is infinite. The
// forms that strconv takes beyond JSON's (hexadecimal, inf, nan) are none.
func real(text string) (x float64, ok bool) {
	if strings.Trim(text, "0123456789.+-eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil || math.IsInf(x, 0)
}

// format writes a value so that it can be read back.
func (f *field) format(v any) string {
	switch v := v.(type) {
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		return strconv.Itoa(*v)
	case *time.Duration:
		return number(float64(*v) / float64(f.unit))
	case *BackoffType:
		return quoteJSON(string(*v))
	case *string:
		return quoteJSON(*v)
	case *[]int:
		items := make([]string, len(*v))
		for i, code := range *v {
			items[i] = strconv.Itoa(code)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	panic(fmt.Sprintf("binder: %s has the type %T, which cannot be written", f.key, v))
}
