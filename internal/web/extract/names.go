package extract

// maxName is longer than any element or attribute we look for.
const maxName = 24

// attr is an attribute that can matter. The rest are not even copied.
type attr uint8

const (
	attrHref attr = iota
	attrXlinkHref
	attrSrc
	attrSrcset
	attrImageSrcset
	attrPoster
	attrData
	attrRel
	attrType
	attrName
	attrProperty
	attrContent
	attrHTTPEquiv
	attrLang
	attrXMLLang
	attrShadowRootMode
	attrAs
	attrHrefLang
	attrStyle
	attrSrcdoc
	attrManifest
	attrCode
	attrArchive
	attrCodebase
	attrValue
	attrValueType
	attrLowSrc
	attrDynSrc
	attrAction
	attrMethod
	attrFormAction
	attrFormMethod
	attrChecked
	attrSelected
	attrMultiple
	attrDisabled
	attrCite
	attrLongDesc
	attrBackground
	attrDataHref
	attrDataURL
	attrDataLink
	attrDataSrc
	attrDataOriginal
	attrDataLazy
	attrDataLazySrc
	attrDataLazyload
	attrDataPoster
	attrDataImage
	attrDataBg
	attrDataBgSrc
	attrDataBackground
	attrDataBackgroundImage
	attrDataSrcset
	attrDataLazySrcset
	attrDataBgset
	numAttrs
)

// attrNames spells the attributes as links carry them.
var attrNames = [numAttrs]string{
	"href", "xlink:href", "src", "srcset", "imagesrcset", "poster", "data", "rel", "type",
	"name", "property", "content", "http-equiv", "lang", "xml:lang", "shadowrootmode", "as", "hreflang",
	"style", "srcdoc", "manifest", "code", "archive", "codebase", "value", "valuetype", "lowsrc", "dynsrc",
	"action", "method", "formaction", "formmethod", "checked", "selected", "multiple", "disabled", "cite", "longdesc", "background",
	"data-href", "data-url", "data-link",
	"data-src", "data-original", "data-lazy", "data-lazy-src", "data-lazyload", "data-poster", "data-image",
	"data-bg", "data-bg-src", "data-background", "data-background-image",
	"data-srcset", "data-lazy-srcset", "data-bgset",
}

// leastShared is the length of the shortest name in sharedNavigation. Attributes of the
// tags that mean nothing are looked at if they are as long: few of them are.
const leastShared = len("data-url")

// The attributes that any element may carry: those that scripts make links of, and those
// that make it show something.
const (
	sharedNavigation = 1<<attrDataHref | 1<<attrDataURL | 1<<attrDataLink
	sharedImages     = 1<<attrDataSrc | 1<<attrDataOriginal | 1<<attrDataLazy | 1<<attrDataLazySrc |
		1<<attrDataLazyload | 1<<attrDataPoster | 1<<attrDataImage | 1<<attrDataBg | 1<<attrDataBgSrc |
		1<<attrDataBackground | 1<<attrDataBackgroundImage
	sharedSets     = 1<<attrDataSrcset | 1<<attrDataLazySrcset | 1<<attrDataBgset
	sharedResource = sharedImages | sharedSets | 1<<attrStyle | 1<<attrBackground | 1<<attrXlinkHref
	sharedAttrs    = sharedNavigation | sharedResource
)

// shapes tells most names from those in a set by what is there before a name is read:
// its length, its first letter and its last.
type shapes struct {
	first, last [32]uint32 // a bit for each length, by the lower five bits of the letter
}

// shapesOf is the shapes of names, none longer than maxName.
func shapesOf(names ...string) (x shapes) {
	for _, name := range names {
		x.first[name[0]&31] |= 1 << len(name)
		x.last[name[len(name)-1]&31] |= 1 << len(name)
	}
	return x
}

// has reports whether name has the shape of one in the set, in whatever case.
func (x *shapes) has(name []byte) bool {
	n := len(name)
	return n > 0 && n <= maxName && x.first[name[0]&31]&x.last[name[n-1]&31]&(1<<n) != 0
}

// tagShapes are of the elements that the extractor looks for without text.
var tagShapes = shapesOf("a", "amp-anim", "amp-audio", "amp-iframe", "amp-img", "amp-video", "applet", "area", "audio",
	"base", "bgsound", "blockquote", "button", "del", "embed", "feimage", "fencedframe", "form", "frame", "html",
	"iframe", "image", "img", "input", "ins", "link", "meta", "noembed", "noframes", "noscript", "object", "option",
	"param", "plaintext", "portal", "q", "script", "select", "source", "style", "svg", "template", "textarea", "title",
	"track", "use", "video", "xmp")

// attrShapes are of the attributes, and attrsByLen the attributes themselves.
var (
	attrShapes = shapesOf(attrNames[:]...)
	attrsByLen = func() (t [maxName + 1][]attr) {
		for a, name := range attrNames {
			t[len(name)] = append(t[len(name)], attr(a))
		}
		return t
	}()
)

// attrOf knows the attributes that can matter, in whatever case, of names that have the
// shape of one.
func attrOf(name []byte) (attr, bool) {
	for _, a := range attrsByLen[len(name)] {
		if spells(name, attrNames[a]) {
			return a, true
		}
	}
	return 0, false
}

// spells reports whether name is want, which is in lower case and as long.
func spells(name []byte, want string) bool {
	for i := range name {
		if lower(name[i]) != want[i] {
			return false
		}
	}
	return true
}
