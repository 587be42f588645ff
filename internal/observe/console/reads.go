package console

import (
	"fmt"
	"net/http"
)

// healthz answers while the process runs, whatever the crawl does: it asks nobody.
func (c *Console) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"alive": true})
}

// readyz answers whether the crawl can do its work. That some hosts are down is its work;
// that all are says more about the network here.
func (c *Console) readyz(w http.ResponseWriter, _ *http.Request) {
	err := c.crawl.Ready()
	if l := c.look().Limiter; err == nil && l.Domains > 0 && l.Open == l.Domains {
		err = fmt.Errorf("the circuit of every host is open: %d fail", l.Open)
	}
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]bool{"ready": true})
}

// snapshot is the state of the crawl.
func (c *Console) snapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, c.look())
}

// host is what is known of one host.
func (c *Console) host(w http.ResponseWriter, r *http.Request) {
	h := c.crawl.Host(r.PathValue("host"))
	if h.Frontier == nil && h.Limiter == nil {
		refuse(w, http.StatusNotFound, "nothing is known of that host; write it as /api/snapshot does, with its port unless that is 80 or 443")
		return
	}
	answer(w, http.StatusOK, h)
}

// inForce is the controls that operators have given.
func (c *Console) inForce(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, c.crawl.Controls())
}
