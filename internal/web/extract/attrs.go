package extract

// attrs holds the attributes of one start tag that can matter: the first of each name.
type attrs struct {
	has  uint64 // a bit for each that the tag has
	read uint64 // and for each whose references have been resolved
	vals [numAttrs][]byte
}

// put keeps an attribute that can matter. Of two with one name the first counts, says
// the HTML standard.
func (as *attrs) put(key, val []byte) {
	if a, ok := attrOf(key); ok && as.has&(1<<a) == 0 {
		as.has |= 1 << a
		as.vals[a] = val
	}
}

// attr resolves references when it is asked, not before: most attributes of a tag that
// matters are read over, and most values have none.
func (s *scanner) attr(a attr) (val []byte, has bool) {
	as, bit := &s.attrs, uint64(1)<<a
	if as.has&bit == 0 {
		return nil, false
	}
	if as.read&bit == 0 {
		as.read |= bit
		as.vals[a] = s.read(as.vals[a], reading{refs: true, attr: true, noNUL: true})
	}
	return as.vals[a], true
}

// has is the attributes of the start tag, a bit for each that can matter.
func (s *scanner) has() uint64 { return s.attrs.has }

// attributes steps over those of a tag whose name ends at i, §13.2.5.32 to 40, and
// over its ">". It returns where the page goes on, or -1 if it ends within the tag.
// Attributes that can matter are kept if they have at least so many letters: all, those
// that any tag may carry, or none.
func (s *scanner) attributes(i, atLeast int) int {
	s.attrs.has, s.attrs.read = 0, 0
	for {
		i = skipSpace(s.body, i)
		switch {
		case i >= len(s.body):
			return -1
		case s.body[i] == '>':
			return i + 1
		}
		var key, val []byte
		key, val, i = NextAttr(s.body, i)
		if len(key) >= atLeast && attrShapes.has(key) { // the steps are the same without: quotes may hide a ">"
			s.attrs.put(key, val)
		}
	}
}

// NextAttr reads the attribute at i, where there is neither space nor ">", and returns
// where the next one can begin. A slash there is an attribute without a name.
func NextAttr(s []byte, i int) (key, val []byte, next int) {
	start := i
	if s[i] == '=' { // in front of a name it belongs to it
		i++
	}
	i = endOf(s, i, endsKey)
	key = s[start:i]
	val, next = value(s, skipSpace(s, i))
	return key, val, next
}

// value reads what may follow a name: nothing, a slash, or "=" and a value. It
// returns where the next name can begin.
func value(s []byte, i int) (val []byte, next int) {
	if i >= len(s) || s[i] != '=' && s[i] != '/' {
		return nil, i
	}
	if s[i] == '/' {
		return nil, i + 1
	}
	i = skipSpace(s, i+1)
	if i >= len(s) {
		return nil, i
	}
	// Between quotes everything is value, tags too; where they are not closed, the page
	// ends within the tag, and what follows is lost to browsers as well.
	if q := s[i]; q == '"' || q == '\'' {
		i++
		end := near(s, i, q)
		if end < 0 {
			return nil, len(s)
		}
		return s[i:end], end + 1
	}
	end := endOf(s, i, endsValue)
	return s[i:end], end
}

// selfClosing looks at the tag once more: few tags are asked. The last slash can be the
// end of a value without quotes, and then it is that, unless the attribute is not the
// first of its name; x/net/html forgets those too early, and we with it.
func (s *scanner) selfClosing() bool {
	// The tokenizer remembers attributes and looks whether the last of them ends where the
	// tag does; we go over them again.
	end := s.at - len(">")
	if s.body[end-1] != '/' {
		return false
	}
	var last []byte
	for i := s.nameEnd; ; {
		if i = skipSpace(s.body, i); i >= end {
			return true
		}
		key, val, next := NextAttr(s.body, i)
		if next == end && len(val) > 0 && s.body[next-1] == '/' {
			last = key
			return s.hasBefore(last, i)
		}
		i = next
	}
}

// hasBefore reports whether the tag has an attribute of that name before i.
func (s *scanner) hasBefore(name []byte, i int) bool {
	for at := skipSpace(s.body, s.nameEnd); at < i; {
		key, _, next := NextAttr(s.body, at)
		if sameName(key, name) {
			return true
		}
		at = skipSpace(s.body, next)
	}
	return false
}

// sameName compares names as HTML does: in ASCII, whatever the case.
func sameName(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// lowered appends s in lower case.
func lowered(dst, s []byte) []byte {
	for _, c := range s {
		dst = append(dst, lower(c))
	}
	return dst
}

// hasToken reports whether list, separated by space, holds token. Both are in lower
// case.
func hasToken[T ~string | ~[]byte](list T, token string) bool {
	for i := 0; i < len(list); {
		for i < len(list) && isSpace(list[i]) {
			i++
		}
		start := i
		for i < len(list) && !isSpace(list[i]) {
			i++
		}
		if string(list[start:i]) == token {
			return true
		}
	}
	return false
}
