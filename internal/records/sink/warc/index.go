package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

// indexLine matches the beginning of a line of an index: a key, a time in seconds, and a JSON object.
var indexLine = lazy.Regexp(`^\S+ \d{14} \{`)

// IsIndexLine reports whether a line begins like one of an index.
func IsIndexLine(line []byte) bool { return indexLine().Match(line) }

const revisitMime = "warc/revisit"

type entry struct {
	URL      string `json:"url"`
	Mime     string `json:"mime,omitempty"`
	Status   string `json:"status,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Length   string `json:"length"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

var onlyDigits = strings.NewReplacer("-", "", ":", "", "T", "", ".", "", "Z", "")

// line returns the index line of a record. head is the header of its HTTP message; of date only the seconds are used.
func line(kind, uri, date, digest string, head []byte, offset, length int64, file string) string {
	uri = oneLine(uri)
	e := entry{
		URL: uri, Length: strconv.FormatInt(length, 10), Offset: strconv.FormatInt(offset, 10), Filename: file,
		Digest: strings.TrimPrefix(digest, "sha1:"),
	}
	e.Status, e.Mime = statusAndMime(head)
	if kind == typeRevisit {
		e.Mime = revisitMime
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // cannot fail for strings; Encode ends the line
	digits := onlyDigits.Replace(date)
	return surt(uri) + " " + digits[:min(14, len(digits))] + " " + b.String()
}

// statusAndMime reads the status and the media type, without parameters, from the header of a response. From a damaged
// header it returns what it can read.
func statusAndMime(head []byte) (status, mime string) {
	first, rest, _ := bytes.Cut(head, []byte("\n"))
	if parts := strings.Fields(string(first)); len(parts) > 1 && len(parts[1]) == 3 {
		status = parts[1]
	}
	for l := range bytes.Lines(rest) {
		name, value, ok := bytes.Cut(l, []byte(":"))
		if ok && strings.EqualFold(string(name), "content-type") {
			value, _, _ = bytes.Cut(value, []byte(";"))
			return status, strings.TrimSpace(string(value))
		}
	}
	return status, ""
}

// writeIndex writes the lines, sorted bytewise, and syncs the file. It replaces a file of that path: while the archive
// has no final name, such a file was left by a killed process.
func writeIndex(path string, lines []string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	slices.Sort(lines)
	w := bufio.NewWriter(f)
	for _, l := range lines {
		_, _ = w.WriteString(l) // Flush returns the error
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// surt returns the key that pywb and the Wayback Machine use for a URL (Sort-friendly URI Reordering Transform), like
// the library of that name: without scheme, user information, "www", default port, session IDs and fragment; unescaped,
// with path and query in lower case. A URL that is not http or https is its own key.
func surt(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return strings.ReplaceAll(uri, " ", "%20") // a space would end the key
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	key := surtHost(scheme, authority) + ")" + surtPath("/"+path)
	if query = surtQuery(query); query != "" {
		key += "?" + query
	}
	return key
}

// surtHost returns the host with its labels in reverse order, so that the hosts of a domain are adjacent. The parts of
// an IPv4 address are reversed as well; an IPv6 address loses its brackets.
func surtHost(scheme, authority string) string {
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i:]
	}
	if port == ":" || port == ":80" && scheme == "http" || port == ":443" && scheme == "https" {
		port = ""
	}
	host = strings.ReplaceAll(unescaped(strings.Trim(host, "[]")), "..", ".")
	host = escaped(strings.ToLower(strings.Trim(host, ".")))
	labels := strings.Split(host, ".")
	if digits, ok := strings.CutPrefix(labels[0], "www"); ok && len(labels) > 1 && strings.Trim(digits, "0123456789") == "" {
		labels = labels[1:]
	}
	slices.Reverse(labels)
	return strings.Join(labels, ",") + port
}

// aspSession matches paths with a session of ASP.NET: a segment in parentheses.
var aspSession = []func() *regexp.Regexp{
	lazy.Regexp(`^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$`),
	lazy.Regexp(`^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$`),
}

// surtPath transforms a path, which must begin with a slash.
func surtPath(path string) string {
	kept := make([]string, 0, 16)
	for _, s := range strings.Split(unescaped(path), "/")[1:] {
		switch {
		case s == ".":
		case s == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, s)
		}
	}
	if last := len(kept) - 1; last > 0 { // several slashes in a row count as one
		kept = append(slices.DeleteFunc(kept[:last:last], func(s string) bool { return s == "" }), kept[last])
	}
	path = strings.ToLower(escaped("/" + strings.Join(kept, "/")))
	if strings.Contains(path, ".aspx") {
		for _, re := range aspSession {
			path = re().ReplaceAllString(path, "$1$2")
		}
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// querySessions matches queries with session IDs, in lower case.
var querySessions = []func() *regexp.Regexp{
	lazy.Regexp(`^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$`),
	lazy.Regexp(`^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$`),
	lazy.Regexp(`^(.*)sid=[0-9a-z]{32}(?:&(.*))?$`),
	lazy.Regexp(`^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$`),
	lazy.Regexp(`^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$`),
}

// surtQuery returns the query without session IDs, its parameters sorted by name, then by value.
func surtQuery(query string) string {
	query = strings.ToLower(escaped(unescaped(query)))
	if strings.Contains(query, "id") { // the name of each of them contains it
		for _, re := range querySessions {
			query = re().ReplaceAllString(query, "$1$2")
		}
	}
	params := strings.Split(query, "&")
	slices.SortFunc(params, func(a, b string) int {
		an, av, _ := strings.Cut(a, "=")
		bn, bv, _ := strings.Cut(b, "=")
		return cmp.Or(strings.Compare(an, bn), strings.Compare(av, bv), len(a)-len(b))
	})
	return strings.Join(params, "&")
}

// unescaped undoes percent-encoding repeatedly until none is left, in one pass, so that a URL that was escaped twice
// gets the same key. Invalid escapes stay as they are.
func unescaped(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for n := len(out); n >= 3 && out[n-3] == '%'; n = len(out) {
			if _, err := hex.Decode(out[n-3:n-2], out[n-2:]); err != nil {
				break
			}
			out = out[:n-2]
		}
	}
	return string(out)
}

// escaped escapes control characters, spaces, non-ASCII bytes, "#" and "%".
func escaped(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '#' && c != '%' {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}
