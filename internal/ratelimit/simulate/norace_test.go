//go:build !race

package simulate

// raceEnabled is true where the race detector makes every step some twenty times as slow.
const raceEnabled = false
