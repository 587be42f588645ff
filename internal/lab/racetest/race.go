//go:build race

package racetest

// Enabled is true where the race detector watches.
const Enabled = true
