package trap

import (
	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// maxHosts bounds the hosts whose pages are counted, at some 40 bytes each.
const maxHosts = 1 << 16

// host is the key of a URL's host.
func (j *Judge) host(u canonical.URL) uint64 { return xxhash.Sum64String(u.Host()) ^ j.cfg.Key }

// enough counts a page and reports whether its host had enough of them before to be judged
// by what they say.
func (j *Judge) enough(u canonical.URL) bool {
	key := j.host(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	n, known := j.hosts[key]
	if n > j.cfg.After {
		return true
	}
	if !known && len(j.hosts) >= maxHosts {
		j.forgetHosts()
	}
	j.hosts[key] = n + 1
	if n < j.cfg.After {
		return false
	}
	j.large.Add(1)
	return true
}

// forgetHosts makes room for half of the hosts at least: those with few pages go first.
func (j *Judge) forgetHosts() {
	for _, most := range [...]int{j.cfg.After / 8, j.cfg.After, noBound} {
		for key, n := range j.hosts {
			if n > most {
				continue
			}
			if n > j.cfg.After {
				j.large.Add(-1)
			}
			delete(j.hosts, key)
		}
		if len(j.hosts) <= maxHosts/2 {
			return
		}
	}
}
