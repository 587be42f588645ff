//go:build race

package frontier

// bigQueue is smaller under the race detector, which makes a million URLs take many times
// as long; nothing else in the test depends on it.
const bigQueue = 100_000
