//go:build !race

package frontier

// bigQueue is how many URLs the big host of the tests has.
const bigQueue = 1_000_000
