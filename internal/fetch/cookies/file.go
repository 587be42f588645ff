package cookies

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// mostLine bounds a line: a cookie with its domain and path, or a comment.
	mostLine = 4 * mostCookie
	// mostFile bounds a file, in bytes. The file of a browser used for years has about one MiB.
	mostFile = 16 << 20
	// mostWrong is how many wrong lines are reported: with more of them it is a different kind of file.
	mostWrong = 5
)

var errNetscape = errors.New("a line has seven fields with tabs between them: domain, TRUE or FALSE for names below, path, TRUE or FALSE for https only, expiry in seconds since 1970 (0 = none), name, value")

// Load reads a file in the format of Netscape's cookies.txt. Cookies that are set later replace those of the file. The
// error lists the wrong lines by number; no cookie is stored then.
func (j *Jar) Load(r io.Reader) error {
	now := j.cfg.Clock.Now()
	var all []cookie
	var wrong []error
	lines := bufio.NewScanner(io.LimitReader(r, mostFile+1))
	lines.Buffer(nil, mostLine)
	read, number := 0, 0
	for lines.Scan() {
		read += len(lines.Bytes()) + 1
		number++
		c, ok, err := parseLine(lines.Text(), now)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("line %d: %w", number, err))
		case ok && (c.expires.IsZero() || c.expires.After(now)):
			all = append(all, c)
		}
		if len(wrong) == mostWrong {
			break
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		wrong = append(wrong, fmt.Errorf("line %d is longer than %d bytes: is it a cookies.txt?", number+1, mostLine))
	case err != nil:
		return err
	case read > mostFile+1:
		return fmt.Errorf("it is larger than %d MiB: is it a cookies.txt?", mostFile>>20)
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range all {
		j.putLocked(Origin{TLS: true}, c, now)
	}
	return nil
}

// parseLine parses a line. The result ok is false if the line has no cookie.
func parseLine(line string, now time.Time) (c cookie, ok bool, err error) {
	line = strings.TrimSuffix(strings.TrimPrefix(line, "\ufeff"), "\r")
	line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
	if strings.TrimSpace(line) == "" || line[0] == '#' {
		return c, false, nil
	}
	f := strings.Split(line, "\t")
	if len(f) == 6 { // some editors remove the tab before an empty value
		f = append(f, "")
	}
	if len(f) != 7 {
		return c, false, fmt.Errorf("it has %d fields: %w", len(f), errNetscape)
	}
	wide, errWide := parseFlag(f[1])
	secure, errSecure := parseFlag(f[3])
	seconds, errTime := strconv.ParseFloat(f[4], 64) // some exporters write fractions
	if errWide != nil || errSecure != nil || errTime != nil || !strings.HasPrefix(f[2], "/") {
		return c, false, fmt.Errorf("a field is not what it should be: %w", errNetscape)
	}
	host := strings.ToLower(strings.TrimPrefix(f[0], "."))
	c = cookie{name: f[5], value: f[6], domain: host, path: f[2], hostOnly: !wide, secure: secure, httpOnly: httpOnly}
	if seconds > 0 {
		c.expires = now.Add(longest)
		if left := seconds - float64(now.Unix()); left < longest.Seconds() {
			c.expires = time.Unix(int64(seconds), 0)
		}
	}
	return c, true, c.check()
}

func parseFlag(s string) (bool, error) {
	switch strings.ToUpper(s) {
	case "TRUE":
		return true, nil
	case "FALSE":
		return false, nil
	}
	return false, errNetscape
}

// check refuses cookies that no server can have set, or that would break a request. Its errors name no value, as values
// may be secret.
func (c *cookie) check() error {
	switch {
	case c.domain == "" || strings.ContainsAny(c.domain, " /:@"):
		return fmt.Errorf("%q is no domain: write a host such as example.com", c.domain)
	case !c.hostOnly && isSuffix(c.domain) && strings.Contains(c.domain, "."):
		return fmt.Errorf("%q is a public suffix, whose names are strangers to each other: write the host itself, or FALSE in the second field", c.domain)
	case !c.sendable():
		return fmt.Errorf("the name or the value has characters that a cookie cannot have, or they are longer than %d bytes: remove the line", mostCookie)
	case !c.honest():
		return fmt.Errorf("%q begins with a promise that the line does not keep (https only, one host, path /)", c.name)
	}
	return nil
}

// Export returns the cookies of the site of a host, in the format that [Jar.Load] reads. It returns nil if there are
// none.
func (j *Jar) Export(host string) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, ok := j.sites.Peek(key(host))
	if !ok {
		return nil
	}
	var b []byte
	word, prefix := map[bool]string{true: "TRUE", false: "FALSE"}, map[bool]string{true: "#HttpOnly_"}
	for i := range s.list {
		c := &s.list[i]
		expires := int64(0)
		if !c.expires.IsZero() {
			expires = c.expires.Unix()
		}
		b = fmt.Appendf(b, "%s%s\t%s\t%s\t%s\t%d\t%s\t%s\n", prefix[c.httpOnly], c.domain, word[!c.hostOnly], c.path, word[c.secure], expires, c.name, c.value)
	}
	return b
}
