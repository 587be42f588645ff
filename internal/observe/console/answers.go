package console

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, status, problem{Title: http.StatusText(status), Status: status, Detail: detail})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	writeJSON(w, status, value)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // a number that JSON does not have, in what the crawl says of itself
		status, body = http.StatusInternalServerError, []byte(`{"title":"the answer is no JSON","status":500}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, "there is no such thing; see /api/snapshot, /api/hosts/HOST, /api/events, /metrics, /healthz and /readyz")
}

// plainProblems has what the mux refuses by itself be problems too.
func plainProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r) // which sets the values of the pattern
			return
		}
		probe := &probe{header: make(http.Header)}
		h.ServeHTTP(probe, r)
		if allow := probe.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			refuse(w, http.StatusMethodNotAllowed, "use "+allow)
			return
		}
		notFound(w, r)
	})
}

type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(int)             {}

// healthz answers while the process runs, whatever the crawl does: it asks nobody.
func (c *Console) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"alive": true})
}

// readyz answers whether the crawl can do its work. That some hosts are down is its work;
// that all are says more about the network here.
func (c *Console) readyz(w http.ResponseWriter, _ *http.Request) {
	err := c.crawl.Ready()
	if l := c.sharedSnapshot().Limiter; err == nil && l.Domains > 0 && l.Open == l.Domains {
		err = fmt.Errorf("the circuit of every host is open: %d fail", l.Open)
	}
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]bool{"ready": true})
}

func (c *Console) snapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, c.sharedSnapshot())
}

func (c *Console) host(w http.ResponseWriter, r *http.Request) {
	h := c.crawl.Host(r.PathValue("host"))
	if h.Frontier == nil && h.Limiter == nil {
		refuse(w, http.StatusNotFound, "nothing is known of that host; write it as /api/snapshot does, with its port unless that is 80 or 443")
		return
	}
	answer(w, http.StatusOK, h)
}

func (c *Console) showControls(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, c.crawl.Controls())
}
