package extract

// What a byte can be. Bytes are looked up, not compared: a page has many.
const (
	space     = 1 << iota // white space of HTML
	letter                // of ASCII; begins the name of a tag
	digit                 //
	hexDigit              //
	endsName              // ends the name of a tag
	endsKey               // ends the name of an attribute
	endsValue             // ends a value without quotes
)

var kinds = func() (t [256]uint8) {
	set := func(chars string, bits uint8) {
		for _, c := range []byte(chars) {
			t[c] |= bits
		}
	}
	const lowers, uppers = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(" \n\t\r\f", space|endsName|endsKey|endsValue)
	set(">", endsName|endsKey|endsValue)
	set("/", endsName|endsKey)
	set("=", endsKey)
	set(lowers+uppers, letter)
	set("0123456789", digit|hexDigit)
	set("abcdefABCDEF", hexDigit)
	return t
}()

// isSpace is true of the white space of HTML.
func isSpace(c byte) bool { return kinds[c]&space != 0 }

// skipSpace is the next byte from i that is no white space.
func skipSpace(s []byte, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// endOf is the next byte from i of that kind, or the end of s.
func endOf(s []byte, i int, kind uint8) int {
	for i < len(s) && kinds[s[i]]&kind == 0 {
		i++
	}
	return i
}

// lower is c in lower case if it is an ASCII letter; names in HTML know no others.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// shapes tells most names from those in a set by two things that are there before a
// name is read: its first letter and its length.
type shapes [32]uint32 // a bit for each length, by the lower five bits of the letter

// shapesOf is the shapes of names, separated by space, none longer than maxName.
func shapesOf(names ...string) (x shapes) {
	for _, name := range names {
		x[name[0]&31] |= 1 << len(name)
	}
	return x
}

// has reports whether name has the shape of one in the set, in whatever case.
func (x *shapes) has(name []byte) bool {
	return len(name) > 0 && len(name) <= maxName && x[name[0]&31]&(1<<len(name)) != 0
}

// tagShapes are of the elements that the extractor looks for without text.
var tagShapes = shapesOf("a", "area", "audio", "base", "embed", "frame", "html", "iframe", "image", "img", "input",
	"link", "meta", "noembed", "noframes", "noscript", "object", "plaintext", "script", "source", "style", "svg",
	"template", "textarea", "title", "track", "video", "xmp")

// attrShapes are of the attributes.
var attrShapes = shapesOf(attrNames[:]...)
