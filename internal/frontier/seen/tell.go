package seen

// Mark is the ID up to which all fingerprints are in runs on disk: those above it have to be
// added again after Open. It is zero if there are none, and never above what is committed.
func (x *Index) Mark() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.markLocked()
}

func (x *Index) markLocked() int64 {
	if len(x.now.runs) == 0 {
		return 0
	}
	return x.now.runs[len(x.now.runs)-1].last
}

// Len is the number of fingerprints.
func (x *Index) Len() int64 { return x.count.Load() }

// Bytes is what the index holds in memory, beside 300 KB, or as much as 8 MB for what
// was found lately among a million, and what a write or a merge takes for its time, and on disk, beside what a merge writes or has just replaced.
func (x *Index) Bytes() (ram, disk int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ram = x.memory.Load()
	for _, m := range x.now.sealed {
		ram += m.bytes()
	}
	for _, r := range x.now.runs {
		ram += r.ram()
		disk += r.size()
	}
	return ram, disk
}

// Err is why runs could not be written, merged or removed the last time; nil after it went
// well. It is a warning: answers are right nevertheless, memory grows up to its bound, and
// it is tried again.
func (x *Index) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.flushing.err != nil {
		return x.flushing.err
	}
	return x.merging.err
}
