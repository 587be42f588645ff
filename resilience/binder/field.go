package binder

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document"
)

// maxName bounds a name that goes into logs and metrics, in bytes.
const maxName = 100

// field is the tag of a field of the [Model].
type field struct {
	key      string
	snake    string  // as YAML spells it
	def      string  // as it would be written
	min, max float64 // both inclusive, as written; not for texts and switches
}

// byType is a []field for each struct of the model.
var byType sync.Map

func fieldsOf(group reflect.Type) []field {
	if known, ok := byType.Load(group); ok {
		return known.([]field)
	}
	all := make([]field, group.NumField())
	for i := range all {
		parts := append(strings.Split(group.Field(i).Tag.Get("doc"), ","), "", "", "")
		all[i] = field{key: parts[0], def: parts[1], snake: document.Snake(parts[0])}
		all[i].min, _ = strconv.ParseFloat(parts[2], 64) // not a number where there is none
		all[i].max, _ = strconv.ParseFloat(parts[3], 64)
	}
	byType.Store(group, all)
	return all
}

// find is the field that a key spells, or -1.
func find(group reflect.Type, key string) int {
	return slices.IndexFunc(fieldsOf(group), func(f field) bool { return key == f.key || key == f.snake })
}

// spells reports whether a key as written is the one of the model, in one of its spellings.
func spells(written, key string) bool { return written == key || written == document.Snake(key) }

func (f *field) unit() time.Duration {
	if strings.HasSuffix(f.key, "Seconds") {
		return time.Second
	}
	return time.Millisecond
}

// want finishes "give …": what a right value looks like. v points to it.
func (f *field) want(v any) string {
	between := fmt.Sprintf("from %s to %s", number(f.min), number(f.max))
	switch v.(type) {
	case *bool:
		return "true or false"
	case *string:
		return fmt.Sprintf("a name of 1 to %d printable bytes", maxName)
	case *BackoffType:
		return "one of none, constant, linear, exponential, decorrelatedJitter"
	case *[]int:
		return "a list of statuses " + between
	case *time.Duration:
		if f.unit() == time.Second {
			return "a number of seconds " + between
		}
		return "a number of milliseconds " + between
	}
	return "a whole number " + between
}

var separators = strings.NewReplacer("-", "", "_", "")

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// store parses text and puts it where v points; the default of a list comes as one text. The
// error says what is wrong with it, and what to give instead.
func (f *field) store(v any, text string) error {
	wrong := ""
	switch v := v.(type) {
	case *bool:
		switch strings.ToLower(text) { // with the words that YAML files were long used to
		case "true", "yes", "on":
			*v = true
		case "false", "no", "off":
			*v = false
		default:
			wrong = "is neither"
		}
	case *int:
		var x float64
		if x, wrong = f.real(text); wrong == "" {
			if *v = int(x); x != math.Trunc(x) || strings.Trim(text, "+-0123456789") != "" {
				wrong = "is not a whole number in digits"
			}
		}
	case *time.Duration: // a float64 is exact to the nanosecond within the bounds
		var x float64
		if x, wrong = f.real(text); wrong == "" {
			*v = time.Duration(math.Round(x * float64(f.unit())))
		}
	case *BackoffType:
		all := []BackoffType{BackoffNone, BackoffConstant, BackoffLinear, BackoffExponential, BackoffDecorrelated}
		if i := slices.IndexFunc(all, func(t BackoffType) bool { return strings.EqualFold(string(t), separators.Replace(text)) }); i >= 0 {
			*v = all[i]
		} else {
			wrong = "is not a type"
		}
	case *string:
		if *v = text; text == "" || len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			wrong = "is no name"
		}
	case *[]int:
		for item := range strings.FieldsSeq(text) {
			code, err := strconv.Atoi(item)
			if *v = append(*v, code); err != nil {
				return err
			}
		}
	}
	if wrong != "" {
		return fmt.Errorf("%s %s; give %s", document.Quote(text), wrong, f.want(v))
	}
	return nil
}

// real is the number that a text says, or what is wrong with it.
func (f *field) real(text string) (x float64, wrong string) {
	switch x, ok := real(text); {
	case !ok:
		return 0, "is not a number"
	case x < f.min:
		return 0, "is below " + number(f.min)
	case x > f.max:
		return 0, "is above " + number(f.max)
	default:
		return x, ""
	}
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

// format writes what v points to as JSON, so that it can be read back.
func (f *field) format(v any) string {
	if d, ok := v.(*time.Duration); ok {
		return number(float64(*d) / float64(f.unit()))
	}
	if list, ok := v.(*[]int); ok && *list == nil {
		return "[]"
	}
	text, err := json.Marshal(v)
	if err != nil { // none of the types in a Model makes it fail
		panic("binder: " + err.Error())
	}
	return string(text)
}
