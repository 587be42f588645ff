package assembly

import (
	"fmt"

	"github.com/treadlight/crawl/internal/records/sink"
)

// durables are the sinks of a crawl whose records are to be on their disks before anything
// says that the URLs are done.
type durables []durable

type durable struct {
	Durable
	path string
}

// durablesOf leaves standard output out, which is on no disk as far as we know.
func durablesOf(sinks ...[]Sink) (all durables) {
	for _, list := range sinks {
		for _, s := range list {
			d, ok := s.(Durable)
			if !ok {
				continue
			}
			if path := d.Mark().Path; path != sink.Stdout {
				all = append(all, durable{d, path})
			}
		}
	}
	return all
}

// sync puts all of them on their disks. It may be called beside whoever writes.
func (d durables) sync() error {
	for i := range d {
		if err := d[i].Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", d[i].path, err)
		}
	}
	return nil
}
