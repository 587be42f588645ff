package frontier

// Bytes is the length of the URLs queued in memory.
func (f *Frontier) Bytes() int { return f.bytes }

// Prove has all hosts in memory be such as have answered before, which may have more than one
// lease out.
func (f *Frontier) Prove() {
	for _, h := range f.hosts {
		h.proven = true
	}
}
