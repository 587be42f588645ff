//go:build race

package main

// raceEnabled is true where the command under test has the race detector.
const raceEnabled = true
