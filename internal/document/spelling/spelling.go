// Package spelling compares names that people misspell: keys of configurations and of
// scenarios. What is near enough for a hint is for whoever knows the names to say.
package spelling

// Distance is the Levenshtein distance of two words: how many bytes have to be put in, taken
// out or exchanged to make b of a. It takes time in proportion to the product of their
// lengths, so that a caller bounds what strangers give.
func Distance(a, b string) int {
	// One row of the usual table is enough: each cell needs its left, upper and upper left
	// neighbours only.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
