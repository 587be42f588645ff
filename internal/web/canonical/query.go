package canonical

import (
	"bytes"
	"slices"
)

// dropParams takes the parameters that a rule drops out of the query of s, and the "?" too
// if none is left.
func (r *Rules) dropParams(rule Rule, s []byte, root int) []byte {
	mark := root + index(s[root:], '?')
	if mark == len(s) {
		return s
	}
	out := s[:mark]
	separator := byte('?')
	for at := mark; at < len(s); {
		next := at + 1 + index(s[at+1:], '&')
		param := s[at+1 : next]
		name := nameOf(param)
		if !r.drops(rule, name, param[min(len(name)+1, len(param)):]) {
			out = append(append(out, separator), param...)
			separator = '&'
		}
		at = next
	}
	return out
}

// sortParams orders the parameters of s by their names as they are spelled. Those of one
// name keep their order, which may mean something.
func sortParams(s []byte, root int) []byte {
	mark := root + index(s[root:], '?')
	if mark == len(s) || inOrder(s[mark+1:]) {
		return s
	}
	params := bytes.Split(bytes.Clone(s[mark+1:]), []byte("&"))
	slices.SortStableFunc(params, func(a, b []byte) int { return bytes.Compare(nameOf(a), nameOf(b)) })
	return append(s[:mark+1], bytes.Join(params, []byte("&"))...)
}

// inOrder reports whether a query needs no sorting, as most do.
func inOrder(query []byte) bool {
	before := []byte(nil)
	for {
		end := index(query, '&')
		name := nameOf(query[:end])
		if bytes.Compare(before, name) > 0 {
			return false
		}
		if end == len(query) {
			return true
		}
		before, query = name, query[end+1:]
	}
}

// nameOf is the name of a parameter.
func nameOf(param []byte) []byte { return param[:index(param, '=')] }

// cutEmptyQuery takes away a "?" at the end.
func cutEmptyQuery(s []byte, root int) []byte {
	if mark := root + index(s[root:], '?'); mark == len(s)-1 {
		return s[:mark]
	}
	return s
}

// mergeSlashes makes one slash of several in the path of s.
func mergeSlashes(s []byte, root int) []byte {
	end := root + index(s[root:], '?')
	out := s[:root+1]
	for i := root + 1; i < end; i++ {
		if s[i] != '/' || s[i-1] != '/' {
			out = append(out, s[i])
		}
	}
	return append(out, s[end:]...)
}

// indexes are the names under which servers look for a directory's own page, as they are
// set up when nobody changes them.
var indexes = []string{
	"index.html", "index.htm", "index.xhtml", "index.shtml", "index.php", "index.jsp", "index.asp", "index.aspx", "index.cgi",
	"default.html", "default.htm", "default.asp", "default.aspx",
}

// cutIndex takes the name of a directory's own page away. With a query it stays: then it is
// a program, and often the only one of its site.
func cutIndex(s []byte, root int) []byte {
	if index(s[root:], '?') < len(s)-root {
		return s
	}
	slash := bytes.LastIndexByte(s, '/')
	if slices.Contains(indexes, string(s[slash+1:])) {
		return s[:slash+1]
	}
	return s
}
