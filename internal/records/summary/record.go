package summary

import "time"

// record is what of a line is looked at. The rest, texts above all, is skipped.
type record struct {
	URL         string    `json:"url"`
	Kind        string    `json:"kind"`
	Status      int       `json:"status"`
	Depth       int       `json:"depth"`
	Referrer    string    `json:"referrer"`
	FetchedAt   time.Time `json:"fetched_at"`
	Attempt     int       `json:"attempt"`
	RedirectTo  string    `json:"redirect_to"`
	ContentType string    `json:"content_type"`
	Bytes       int64     `json:"bytes"`
	WireBytes   int64     `json:"wire_bytes"`
	Truncated   bool      `json:"truncated"`
	Digest      string    `json:"digest"`
	Change      string    `json:"change"`
	Duplicate   string    `json:"duplicate"`
	DuplicateOf string    `json:"duplicate_of"`
	Title       string    `json:"title"`
	Directives  []string  `json:"directives"`
	Nofollow    []string  `json:"nofollow_links"`
	Sitemap     *siteMap  `json:"sitemap"`
	Timings     timings   `json:"timings_ms"`
	Error       *failure  `json:"error"`

	untold bool // titles and directives are not in the source
}

type siteMap struct {
	Format   string `json:"format"`
	URLs     int64  `json:"urls"`
	Dropped  int64  `json:"dropped"`
	Problems int64  `json:"problems"`
	Problem  string `json:"problem"`
}

type timings struct {
	PermitWait float64 `json:"permit_wait"`
	DNS        float64 `json:"dns"`
	Connect    float64 `json:"connect"`
	TLS        float64 `json:"tls"`
	FirstByte  float64 `json:"first_byte"`
	Body       float64 `json:"body"`
	Total      float64 `json:"total"`
}

type failure struct {
	Class string `json:"class"`
}

// linker is what the second reading looks at.
type linker struct {
	URL        string   `json:"url"`
	Kind       string   `json:"kind"`
	Referrer   string   `json:"referrer"`
	RedirectTo string   `json:"redirect_to"`
	Links      []string `json:"links"`
	Resources  []string `json:"resources"`
}

// The classes of error that say something of us and nothing of the page.
const (
	classRobots   = "robots"
	classFiltered = "filtered"
	classCanceled = "canceled"
	classTrap     = "trap"
	classHostFull = "host_pages"
	classSitemap  = "sitemap"
	classDenied   = "address_denied"
	classProxy    = "proxy"
	classUnasked  = "unasked_304"
)

// class is that of the error, empty for none.
func (r *record) class() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// broken reports whether a link to the page leads nowhere, as far as the server has a say.
func (r *record) broken() bool {
	switch r.class() {
	case classRobots, classFiltered, classCanceled, classTrap, classHostFull, classSitemap, classDenied, classProxy, classUnasked:
		return false
	case "redirect_limit", "bad_redirect":
		return true
	}
	return r.Status >= 400 || r.Status == 0 && r.Error != nil
}

// settle brings figures that no crawl has written, but anybody can put into a file, to where
// sums of them stay numbers: a petabyte, and thirty years.
func (r *record) settle() {
	const most = 1e12
	t := &r.Timings
	for _, v := range []*float64{&t.PermitWait, &t.DNS, &t.Connect, &t.TLS, &t.FirstByte, &t.Body, &t.Total} {
		if !(*v >= 0 && *v <= most) { // NaN is not
			*v = 0
		}
	}
	for _, n := range []*int64{&r.Bytes, &r.WireBytes} {
		*n = min(max(*n, 0), 1<<50)
	}
	if x := r.Sitemap; x != nil {
		for _, n := range []*int64{&x.URLs, &x.Dropped, &x.Problems} {
			*n = min(max(*n, 0), 1<<40)
		}
	}
}
