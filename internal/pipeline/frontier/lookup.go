package frontier

import "time"

// Host describes one host, if it is in memory.
func (f *Frontier) Host(now time.Time, name string) (HostState, bool) {
	h, ok := f.hosts[name]
	if !ok {
		return HostState{}, false
	}
	return f.describe(h, now), true
}
