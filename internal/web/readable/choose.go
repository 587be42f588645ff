package readable

import "golang.org/x/net/html"

// Bounds of the selection. The shares say how much of the words that either method keeps must be in what Readability
// found for that to be trusted.
const (
	articleShare = 0.4 // for a page that says that it is an article: the rest may be teasers or comments
	otherShare   = 0.8
	minFound     = 30 // words
	minLink      = 2  // words of a link that counts on a page of links
	minParagraph = 15 // words outside of links that make a paragraph
	minBox       = 10 // words of a block that is kept although Readability left it out
)

// choose selects the blocks that are main text.
func choose(blocks []*block, article bool) {
	inMain := markedMain(blocks)
	region := func(b *block) bool { return b.inBody && !b.aside && !b.named && (b.inMain || !inMain) }
	found := func(b *block) bool { return 2*b.found > b.words && !b.aside }
	listing := isListing(blocks, region, found)
	own := func(b *block) bool {
		return region(b) && (b.links() <= 0.5 || b.heading || b.prose() >= 3 || listing && b.words >= minLink)
	}
	count := (*block).prose
	if listing {
		count = func(b *block) int { return b.words }
	}
	kept, all := 0, 0
	code, first, last := false, len(blocks), -1
	for i, b := range blocks {
		if found(b) {
			kept += count(b)
			first, last = min(first, i), i
		}
		code = code || b.pre && own(b)
		if found(b) || own(b) {
			all += count(b)
		}
	}
	share := otherShare
	if article {
		share = articleShare
	}
	// In the middle of documentation, which has code, Readability drops code, headings and boxes.
	dropped := func(i int, b *block) bool {
		return code && inMain && first < i && i < last && own(b) && !b.detail && (b.pre || b.links() < 0.2 && (b.heading && b.words > 1 || b.words >= minBox))
	}
	believed := kept >= minFound && float64(kept) >= share*float64(all)
	for i, b := range blocks {
		switch {
		case !believed:
			b.main = own(b) || found(b)
		case article:
			b.main = found(b) && !b.named && !b.detail && b.links() < 0.7 || dropped(i, b)
		default:
			b.main = found(b) || dropped(i, b)
		}
	}
}

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

// keepWhole keeps the rest of lists, tables and code of which more than half is kept.
func keepWhole(blocks []*block) {
	type words struct{ kept, all int }
	count := make(map[*html.Node]words)
	for _, b := range blocks {
		if b.whole == nil {
			continue
		}
		w := count[b.whole]
		w.all += b.words
		if b.main {
			w.kept += b.words
		}
		count[b.whole] = w
	}
	for _, b := range blocks {
		if w := count[b.whole]; b.whole != nil && !b.aside && 2*w.kept > w.all {
			b.main = true
		}
	}
}
