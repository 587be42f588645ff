package readable

// choose tells of each block whether it is main text, by the decision tree of the paper on
// the number of words and the density of links of a block, the one before and the one
// after. Its figures are theirs. What stands before the first block and after the last is
// an empty one.
func choose(blocks []block) {
	var none block
	for i := range blocks {
		before, after := &none, &none
		if i > 0 {
			before = &blocks[i-1]
		}
		if i+1 < len(blocks) {
			after = &blocks[i+1]
		}
		blocks[i].main = isMain(before, &blocks[i], after)
	}
}

// minCode is how many words of preformatted text are main text wherever they stand.
const minCode = 5

func isMain(before, b, after *block) bool {
	switch {
	case b.links() > 0.333333:
		return false
	case b.pre: // news have none, and navigation has none either
		return b.words >= minCode
	case before.links() <= 0.555556 && b.words > 16:
		return true
	case before.links() <= 0.555556:
		return after.words > 15 || before.words > 4 && !b.heading && after.links() <= 0.333333
	case b.words > 40:
		return true
	}
	return after.words > 17 && after.links() <= 0.333333
}

// maxGap is how many short blocks between two of the main text belong to it: the items of a
// list, the cells of a table, a line of code.
const maxGap = 12

// fuse takes in the blocks between those that were chosen, if they are few and no links,
// and takes out what was chosen far from everything else and is short.
func fuse(blocks []block) {
	last := -1
	for i := range blocks {
		if !blocks[i].main {
			continue
		}
		if last >= 0 && i-last-1 <= maxGap {
			for j := last + 1; j < i; j++ {
				blocks[j].main = blocks[j].links() <= 0.5 || blocks[j].pre
			}
		}
		last = i
	}
	alone(blocks)
}

// minRun is how many words a run of blocks has that is main text by itself. A notice about
// cookies has fewer.
const minRun = 25

// alone takes out runs of few words, if there are others of more.
func alone(blocks []block) {
	type run struct{ from, to, words int }
	var runs []run
	longest := 0
	for i := 0; i < len(blocks); i++ {
		if !blocks[i].main {
			continue
		}
		r := run{from: i, to: i}
		for ; i < len(blocks) && blocks[i].main; i++ {
			r.words += blocks[i].words
			r.to = i + 1
		}
		runs = append(runs, r)
		longest = max(longest, r.words)
	}
	for _, r := range runs {
		if longest < minRun || r.words < minRun && r.words*4 < longest {
			for i := r.from; i < r.to; i++ {
				blocks[i].main = false
			}
		}
	}
}

// chooseMarked is for a part of a page that says that it is main text: all of it is, but
// for blocks that are links.
func chooseMarked(blocks []block) {
	for i := range blocks {
		b := &blocks[i]
		b.main = b.links() <= 0.5 || b.heading || b.words > b.linked && b.words-b.linked >= 3
	}
}

// maxHeadings is how many headings in a row lead to the text after them.
const maxHeadings = 3

// leadIn takes headings in that stand before what was chosen, with a short line between
// them at most, such as a date or an author, and those out that lead to nothing.
func leadIn(blocks []block) {
	main, lines, headings := false, 0, 0 // what comes next, and how much stands before it
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		switch {
		case b.heading:
			b.main = main && headings < maxHeadings
			headings++
		case b.main:
			main, lines, headings = true, 0, 0
		default:
			lines++
			main = main && lines == 1 && headings == 0 && b.words <= maxLine
		}
	}
}

// maxLine is how many words stand between a heading and its text.
const maxLine = 12
