package canonical

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

var (
	oneEscape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	// library follows the standard as of 2025: "^" is escaped in paths since then.
	library = whatwg.NewParser(whatwg.WithPathPercentEncodeSet(whatwg.PathPercentEncodeSet.Set('^')))
)

// byLibrary is the slow and plain way to the same string: the library does all of the work, and what this package
// adds to the standard is added to its answer.
func byLibrary(base URL, ref string) (string, error) {
	u, err := library.ParseRef(base.String(), ref)
	if err != nil {
		return "", err
	}
	if u.Scheme() != "http" && u.Scheme() != "https" {
		return "", ErrScheme
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if host == "" || len(host) > maxHost || strings.Contains("."+host+".", "..") {
		return "", errHost
	}
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	out := u.Scheme() + "://" + host + normalEscapes(u.Pathname())
	if _, query, ok := strings.Cut(u.Href(true), "?"); ok {
		out += "?" + normalEscapes(query)
	}
	if len(out) > MaxLength {
		return "", ErrLong
	}
	return out, nil
}

// normalEscapes rewrites one escape at a time and takes a step back whenever that would have made a new escape.
func normalEscapes(s string) string {
	out := ""
	for s != "" {
		if !oneEscape.MatchString(s[:min(3, len(s))]) {
			out, s = out+s[:1], s[1:]
			continue
		}
		var v byte
		fmt.Sscanf(s[1:3], "%02x", &v)
		bare := out + string(rune(v))
		if classes[v]&unreserved != 0 && len(oneEscape.FindAllString(bare, -1)) == len(oneEscape.FindAllString(out, -1)) && !endsStray(out, v) {
			out = bare
		} else {
			out += strings.ToUpper(s[:3])
		}
		s = s[3:]
	}
	return out
}

// endsStray reports whether v would be one of the two digits after a lone "%" of its segment.
func endsStray(out string, v byte) bool {
	rest := oneEscape.ReplaceAllString(out[strings.LastIndexByte(out, '/')+1:], "___")
	i := strings.LastIndexByte(rest, '%')
	return i >= 0 && len(rest)-i < 3 && strings.IndexByte("0123456789abcdefABCDEF", v) >= 0
}

func refusedUserinfo(err error) bool { return errors.Is(err, errUserinfo) }

// whatwgData reads a list of the test data that come with the library's module. Texts in it are comments.
func whatwgData[T any](t *testing.T, name string) (cases []T) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nlnwa/whatwg-url").Output()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", name))
	require.NoError(t, err)
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal(data, &raw))
	for _, r := range raw {
		var c T
		if r[0] != '"' {
			require.NoError(t, json.Unmarshal(r, &c), string(r))
			cases = append(cases, c)
		}
	}
	require.NotEmpty(t, cases)
	return cases
}

type webCase struct {
	Input, Base, Href string
	Failure           bool
}

func (c webCase) isWeb() bool {
	if c.Failure {
		return schemeLen(c.Input) > 0 && webScheme(c.Input[:schemeLen(c.Input)]) != "" || schemeLen(c.Input) == 0 && strings.HasPrefix(c.Base, "http")
	}
	return strings.HasPrefix(c.Href, "http://") || strings.HasPrefix(c.Href, "https://")
}

// right reports whether got and err are what the standard asks for, with this package's additions on top.
func (c webCase) right(base, got URL, err error) bool {
	switch {
	case c.Failure:
		return err != nil
	}
	want, wantErr := byLibrary(base, c.Href)
	return wantErr == nil && err == nil && got.String() == want
}

// skip is why a case says nothing about this package; empty if it does.
func (c webCase) skip() string {
	switch {
	case !c.isWeb():
		return "another scheme"
	case strings.Contains(c.Base, "@"):
		return "a base with credentials, which no page has here"
	}
	return ""
}

// TestWHATWG runs the standard's own cases. What differs are the empty labels that DNS cannot hold, and credentials,
// which are refused, even empty ones.
func TestWHATWG(t *testing.T) {
	all := whatwgData[webCase](t, "urltestdata.json")
	result := conformance.Result{Cases: len(all), Differs: map[string]int{}, NotRun: map[string]int{}}
	for _, c := range all {
		if why := c.skip(); why != "" {
			result.NotRun[why]++
			continue
		}
		var base URL
		if strings.HasPrefix(c.Base, "http") {
			base, _ = Parse(c.Base)
		}
		got, err := base.Resolve(c.Input)
		switch {
		case c.right(base, got, err):
			result.Passed++
		case refusedUserinfo(err) && strings.Contains(c.Input, "@"):
			result.Differs["user information in a URL is refused: a crawl has its credentials by host"]++
		case !c.Failure && (errors.Is(err, errLabel) || errors.Is(err, errNoHost) || errors.Is(err, errLongHost)):
			result.Differs["a host with an empty label, or one that is longer than DNS can hold, is refused"]++
		default:
			t.Errorf("%q + %q = %q, %v; want %q, failure %v", c.Base, c.Input, got, err, c.Href, c.Failure)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "whatwg-url", result)
	}
}

// TestHosts runs the standard's cases of names. One of them that is an IPv4 address or has a dot at its end is what
// it is here; a name that the standard lets pass and DNS does not may be refused.
func TestHosts(t *testing.T) {
	for file, id := range map[string]string{"toascii.json": "toascii", "IdnaTestV2.json": "idna"} {
		cases := whatwgData[struct{ Input, Output *string }](t, file)
		result := conformance.Result{Cases: len(cases), Differs: map[string]int{}, NotRun: map[string]int{}}
		for _, c := range cases {
			if strings.Trim(*c.Input, ".。") == "" || strings.Contains(*c.Input, "?") {
				result.NotRun["nothing but dots, or with a ?, which ends a host in a URL"]++
				continue
			}
			u, err := Parse("https://" + *c.Input + "/x")
			switch {
			case c.Output == nil && err != nil,
				c.Output != nil && err == nil && u.Hostname() == strings.TrimSuffix(*c.Output, "."):
				result.Passed++
			case c.Output != nil && errors.Is(err, errLabel), c.Output != nil && errors.Is(err, errLongHost):
				result.Differs["a label or a name that is longer than DNS can hold is refused"]++
			default:
				t.Errorf("%q = %q, %v", *c.Input, u.Hostname(), err)
			}
		}
		if !t.Failed() {
			conformance.Report(t, id, result)
		}
	}
}
