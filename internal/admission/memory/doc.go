// Package memory keeps what keys have used of plans in this process.
//
// A key and all its plans live in one slot of one shard, so that a decision over several
// plans is one lock, and there is no order of locks to keep. The number of keys is
// bounded. A key is forgotten only once nothing it used counts any more: then a new one
// would decide the same. Each new key looks at a few others for that; there is no
// goroutine. A decision about a known key allocates nothing.
//
// When more keys count than there are places, those who have used the smallest share of
// their plans are counted in a sketch, a table of counters that several keys may have in
// common: a flood of keys that are used once or twice takes no place from a client that is
// known, and a newcomer after it is not charged with what the flood has used, but for one in
// a thousand or so of plans that admit very few.
package memory
