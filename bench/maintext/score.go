package main

import (
	"regexp"
	"strings"
)

// score is precision, recall and F1 of one page, or their means.
type score struct{ precision, recall, f1 float64 }

// words are runs of letters, digits and underscores, as Python's \w+.
var words = regexp.MustCompile(`[\p{L}\p{N}\p{Mn}_]+`)

// shingled is the measure of the article set, that of its evaluate.py: runs of four words; the means of precision and
// recall over pages, and F1 of the means.
func shingled(pages []page, texts []string) score {
	var s score
	var ps, rs float64
	for i, p := range pages {
		want, got := shingles(p.truth), shingles(texts[i])
		tp, fp, fn := 0.0, 0.0, 0.0
		for k, n := range want {
			tp += float64(min(n, got[k]))
			fn += float64(max(0, n-got[k]))
		}
		for k, n := range got {
			fp += float64(max(0, n-want[k]))
		}
		if tp+fp > 0 {
			ps++
			s.precision += tp / (tp + fp)
		}
		if tp+fn > 0 {
			rs++
			s.recall += tp / (tp + fn)
		}
	}
	s.precision, s.recall = s.precision/max(1, ps), s.recall/max(1, rs)
	s.f1 = harmonic(s.precision, s.recall)
	return s
}

func shingles(text string) map[string]int {
	tokens := words.FindAllString(text, -1)
	all := make(map[string]int)
	for i := range max(1, len(tokens)-3) {
		if s := strings.Join(tokens[min(i, len(tokens)):min(i+4, len(tokens))], " "); s != "" {
			all[s]++
		}
	}
	return all
}

// worded is the measure of WCXB, that of its evaluate.py: words in whatever order; the mean over pages.
func worded(pages []page, texts []string) score {
	var s score
	for i, p := range pages {
		one := wordScore(p.truth, texts[i])
		s.precision += one.precision
		s.recall += one.recall
		s.f1 += one.f1
	}
	n := float64(max(1, len(pages)))
	return score{s.precision / n, s.recall / n, s.f1 / n}
}

func wordScore(truth, text string) score {
	want, got := words.FindAllString(strings.ToLower(truth), -1), words.FindAllString(strings.ToLower(text), -1)
	if len(want) == 0 || len(got) == 0 {
		if len(want) == len(got) {
			return score{1, 1, 1}
		}
		return score{}
	}
	counts := make(map[string]int)
	for _, w := range want {
		counts[w]++
	}
	both := 0.0
	for _, w := range got {
		if counts[w] > 0 {
			counts[w]--
			both++
		}
	}
	s := score{precision: both / float64(len(got)), recall: both / float64(len(want))}
	s.f1 = harmonic(s.precision, s.recall)
	return s
}

func harmonic(a, b float64) float64 {
	if a+b == 0 {
		return 0
	}
	return 2 * a * b / (a + b)
}
