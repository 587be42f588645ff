// Package frontiertest checks that a frontier, with or without a store, keeps the rules of frontiers: see [Law].
package frontiertest
