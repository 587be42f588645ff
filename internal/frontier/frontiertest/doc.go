// Package frontiertest holds a frontier, and whatever it keeps its URLs in, to the law of frontiers: see [Law].
package frontiertest
