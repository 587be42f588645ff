package readable

import (
	"hash/maphash"
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/dom"
)

// Bounds of the selection. The shares say how much of the words that either method keeps must be in what Readability
// found for that to be trusted.
const (
	articleShare = 0.4 // for a page that says that it is an article: the rest may be teasers or comments
	otherShare   = 0.8
	minFound     = 30  // words
	minLink      = 2   // words of a link that counts on a page of links
	minParagraph = 15  // words outside of links that make a paragraph
	codeShare    = 100 // words for each word of code, at most, in documentation
	maxCopies    = 3   // of a text on a page; one that comes more often is a label of a button
)

// choose selects the blocks that are main text.
func choose(blocks []*block, article bool) {
	inMain := markedMain(blocks)
	shapes, copies := repeated(blocks)
	region := func(b *block) bool { return b.inBody && !b.aside && !b.named && (b.inMain || !inMain) }
	found := func(b *block) bool {
		if b.aside {
			return false
		}
		same := shapes[b]
		return 2*b.found > b.words || 2*same.found > same.words && !b.named && !b.detail && b.links() < 0.5
	}
	listing := isListing(blocks, region, found)
	own := func(b *block) bool {
		return region(b) && (b.links() <= 0.5 || b.heading || b.prose() >= 3 || listing && b.words >= minLink)
	}
	count := (*block).prose
	if listing {
		count = func(b *block) int { return b.words }
	}
	kept, all := 0, 0
	words, code, first, last := 0, 0, len(blocks), -1
	for i, b := range blocks {
		if found(b) {
			kept += count(b)
			first, last = min(first, i), i
		}
		words += b.words
		if b.pre && own(b) {
			code += b.words
		}
		if found(b) || own(b) {
			all += count(b)
		}
	}
	share := otherShare
	if article {
		share = articleShare
	}
	believed := kept >= minFound && float64(kept) >= share*float64(all)
	// Readability drops lists, tables, headings and boxes of documentation, which has code: all between its ends is kept.
	documentation := func(i int, b *block) bool {
		return 0 < code && words <= codeShare*code && region(b) && (inMain || !b.detail && first < i && i < last)
	}
	for i, b := range blocks {
		switch {
		case documentation(i, b):
			b.main = true
		case !believed:
			label := copies[b.text] > maxCopies && b.words < minParagraph && !b.heading && !b.pre && !inTable(b)
			b.main = found(b) || own(b) && !label
		case article:
			b.main = found(b) && !b.named && !b.detail && b.links() < 0.7
		default:
			b.main = found(b)
		}
	}
}

func inTable(b *block) bool { return b.whole != nil && b.whole.DataAtom == atom.Table }

// repeated returns for each block the sum of all of its shape, and how often each text comes.
func repeated(blocks []*block) (shapes map[*block]*weight, copies map[string]int) {
	shapes, copies = make(map[*block]*weight, len(blocks)), make(map[string]int)
	all := make(map[uint64]*weight)
	for _, b := range blocks {
		key := shape(b)
		if all[key] == nil {
			all[key] = &weight{}
		}
		all[key].add(weight{found: b.found, words: b.words})
		shapes[b] = all[key]
		copies[b.text]++
	}
	return shapes, copies
}

// shape is a hash of the names and classes of the three elements around a block: blocks of one shape are of one kind, such as
// the posts of a forum or the entries of a list.
func shape(b *block) uint64 {
	const maxInline = 8
	var e *html.Node
	if len(b.nodes) > 0 {
		e = b.nodes[0].Parent
	}
	for i := 0; i < maxInline && e != nil && dom.Inline(e); i++ {
		e = e.Parent
	}
	var h maphash.Hash
	h.SetSeed(shapeSeed)
	for i := 0; i < 3 && e != nil; i++ {
		_, _ = h.WriteString(e.Data) // cannot fail
		if class, _ := dom.Attr(e, "class"); len(class) <= maxClass {
			_, _ = h.WriteString(class)
		}
		_ = h.WriteByte(0)
		e = e.Parent
	}
	return h.Sum64()
}

var shapeSeed = maphash.MakeSeed()

// isListing reports whether a page is a list of links: it has more than twice as many words in links as in paragraphs,
// and the paragraphs that Readability found are less than half of the words outside of links.
func isListing(blocks []*block, region, found func(*block) bool) bool {
	linked, text, paragraphs, read := 0, 0, 0, 0
	for _, b := range blocks {
		if !region(b) {
			continue
		}
		linked += b.linked
		text += b.prose()
		if b.prose() >= minParagraph {
			paragraphs += b.prose()
			if found(b) {
				read += b.prose()
			}
		}
	}
	return linked >= minFound && linked > 2*paragraphs && 2*read <= text
}

// markedMain reports whether main elements have a tenth of the words or more.
func markedMain(blocks []*block) bool {
	in, all := 0, 0
	for _, b := range blocks {
		if b.aside || b.named {
			continue
		}
		all += b.prose()
		if b.inMain {
			in += b.prose()
		}
	}
	return in > 0 && 10*in >= all
}

// keepWhole keeps the rest of lists, tables and code of which more than a quarter is kept.
func keepWhole(blocks []*block) {
	kept, all := make(map[*html.Node]int), make(map[*html.Node]int)
	for _, b := range blocks {
		if all[b.whole] += b.words; b.main {
			kept[b.whole] += b.words
		}
	}
	for _, b := range blocks {
		if b.whole != nil && !b.aside && 4*kept[b.whole] > all[b.whole] {
			b.main = true
		}
	}
}

// keepHeadings keeps each heading within the main text whose section is kept: templates give headings classes of
// navigation, and sections are named by their topic.
func keepHeadings(blocks []*block) {
	first := slices.IndexFunc(blocks, func(b *block) bool { return b.main })
	below := false
	for i := len(blocks) - 1; i > first; i-- {
		switch b := blocks[i]; {
		case !b.heading || b.whole != nil || b.aside:
			below = b.main
		case below:
			b.main = true
		}
	}
}
