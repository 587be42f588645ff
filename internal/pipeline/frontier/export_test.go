package frontier

// Bytes is the length of the URLs queued in memory.
func (f *Frontier) Bytes() int { return f.bytes }
