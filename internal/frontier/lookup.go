package frontier

import "time"

// Host describes one host, if it is in memory or barred.
func (f *Frontier) Host(now time.Time, name string) (HostState, bool) {
	h, ok := f.hosts[name]
	if _, barred := f.barred[name]; !ok && barred {
		return HostState{Host: name, Reason: byOperator, Barred: true}, true
	} else if !ok {
		return HostState{}, false
	}
	return f.describe(h, now), true
}
