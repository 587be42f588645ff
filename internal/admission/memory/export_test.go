package memory

// Accounts is how many accounts a known key has.
func Accounts(r *Repository, key string) int {
	hash := hashOf(r.seed, key)
	t := &r.shards[hash>>r.shift].table
	return 1 + len(t.At(t.Find(hash, key)).Value.more)
}
