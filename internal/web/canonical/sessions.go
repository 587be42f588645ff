package canonical

import "bytes"

// trackers are parameters that change nothing but somebody's statistics: those of the
// analytics and advertisement services that document them.
var trackers = []string{
	"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl", // Google
	"fbclid", "igsh", "igshid", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "yclid", "ysclid", "_openstat",
	"mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",
	"pk_*", "piwik_*", "mtm_*", "matomo_*", "vero_id", "vero_conv", "oly_anon_id", "oly_enc_id", "wickedid", "rb_clickid",
}

// sessionNames are parameters that hold nothing but a session id, whatever its form.
var sessionNames = []string{"phpsessid", "jsessionid", "aspsessionid*", "sessionid", "session_id", "cfid", "cftoken", "oscsid", "zenid"}

// shortNames are parameters that hold a session id if it looks like one.
var shortNames = []string{"sid", "s", "sess", "session"}

// minSession is the shortest id that a short name is believed to hold: 64 bits in hex, less
// than any system in use makes.
const minSession = 16

// looksRandom reports whether a value may be an id: long, of letters and digits alone, with
// both of them.
func looksRandom(value []byte) bool {
	letters, digits := 0, 0
	for _, c := range value {
		switch {
		case classes[c]&alpha != 0:
			letters++
		case '0' <= c && c <= '9':
			digits++
		default:
			return false
		}
	}
	return len(value) >= minSession && letters > 0 && digits > 0
}

// pathSessions are parameters within a path that hold session ids: those of Java servlets
// (Jakarta Servlet §7.1.3), and what others made of them.
var pathSessions = []string{"jsessionid", "phpsessid", "sid"}

// cutPathSessions cuts session ids out of the path of s: parameters behind a semicolon, and
// segments that ASP.NET puts in for clients without cookies, "/(S(id))/".
func cutPathSessions(s []byte, root int) []byte {
	if !bytes.ContainsAny(s[root:], ";(") {
		return s
	}
	end := root + index(s[root:], '?')
	out := s[:root]
	for at := root; at < end; {
		next := at + 1 + index(s[at+1:end], '/')
		begin := len(out)
		out = appendSegment(append(out, '/'), s[at+1:next])
		if next < end && isCookieless(out[begin+1:]) {
			out = out[:begin]
		}
		at = next
	}
	return append(out, s[end:]...)
}

// isCookieless knows the segments of ASP.NET: groups of a letter and an id in brackets, all
// in brackets.
func isCookieless(segment []byte) bool {
	if len(segment) < len("(S(x))") || segment[0] != '(' || segment[len(segment)-1] != ')' {
		return false
	}
	for rest := segment[1 : len(segment)-1]; len(rest) > 0; {
		closed := bytes.IndexByte(rest, ')')
		if closed < len("S(x") || rest[1] != '(' || bytes.IndexByte([]byte("SAFX"), rest[0]) < 0 || bytes.IndexByte(rest[2:closed], '(') >= 0 {
			return false
		}
		rest = rest[closed+1:]
	}
	return true
}

// appendSegment appends a segment without the session ids in it. A segment that would be
// dots without them keeps them, for dots lead elsewhere. dst may be the memory before segment.
func appendSegment(dst, segment []byte) []byte {
	name := index(segment, ';')
	if head := string(segment[:name]); head == "." || head == ".." {
		return append(dst, segment...)
	}
	dst = append(dst, segment[:name]...)
	for rest := segment[name:]; len(rest) > 0; {
		end := 1 + index(rest[1:], ';')
		if !isPathSession(rest[1:end]) {
			dst = append(dst, rest[:end]...)
		}
		rest = rest[end:]
	}
	return dst
}

func isPathSession(param []byte) bool {
	name := nameOf(param)
	return len(name) < len(param) && matchAny(pathSessions, name)
}
