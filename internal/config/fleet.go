package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/fetch/access"
)

// Shared reports whether the crawl is one of several processes.
func (f Fleet) Shared() bool { return f.Redis != "" }

// ParseRedis reads fleet.redis, with the variables that lookup knows in it.
func ParseRedis(text string, lookup func(string) (string, bool)) (rueidis.ClientOption, error) {
	url, err := access.Expand(text, lookup)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	o, err := rueidis.ParseURL(url)
	if err != nil { // whose words may have the password in them
		return o, fmt.Errorf("%s is no URL of a Redis: give redis://HOST:PORT, rediss:// with TLS, or unix:///PATH", quote(redactProxy(text)))
	}
	if len(o.InitAddress) == 0 || strings.HasPrefix(o.InitAddress[0], ":") {
		return o, fmt.Errorf("%s names no host: give redis://HOST:PORT", quote(redactProxy(text)))
	}
	return o, nil
}

// redisURL checks the form of fleet.redis; what variables hold is known when it is used.
func redisURL(s string) error {
	if s == "" {
		return nil
	}
	if strings.Contains(s, redacted) {
		return errPrinted
	}
	x := func(string) (string, bool) { return "x", true }
	if access.Expands(s) { // a variable may be the port, or all of it
		_, err := access.Expand(s, x)
		return err
	}
	_, err := ParseRedis(s, x)
	return err
}

var (
	jobForm    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	errJob     = errors.New("is no name: use 1 to 64 letters, digits, dots, hyphens and underscores")
	fileMarker = "{worker}"
)

func jobName(s string) error {
	if s != "" && !jobForm.MatchString(s) {
		return fmt.Errorf("%s %w", quote(s), errJob)
	}
	return nil
}

// workerName is checked like the job's: it becomes part of names of files.
func workerName(s string) error {
	if s == "." || s == ".." {
		return fmt.Errorf("%s %w", quote(s), errJob)
	}
	return jobName(s)
}

// OfWorker is a name of a file with that of the process in the place of {worker}.
func OfWorker(path, worker string) string { return strings.ReplaceAll(path, fileMarker, worker) }

// HasWorker reports whether a name of a file has {worker} in it.
func HasWorker(path string) bool { return strings.Contains(path, fileMarker) }

// checkFleet checks what goes with a fleet and what does not.
func (l *loader) checkFleet() {
	f, c := &l.cfg.Fleet, &l.cfg
	switch {
	case f.Redis != "" && f.Job == "":
		l.report("fleet.job", l.origins["fleet.job"], "is empty, and fleet.redis is not%s: name the crawl that processes share, by --job", l.place("fleet.redis"))
	case f.Redis == "" && f.Job != "":
		l.report("fleet.redis", l.origins["fleet.redis"], "is empty, and fleet.job is not%s: give the Redis that processes share, by --redis", l.place("fleet.job"))
	}
	if !f.Shared() {
		return
	}
	if c.State.Dir != "" {
		l.report("state.dir", l.origins["state.dir"], "is %s, and a crawl of several processes is kept in fleet.redis%s; leave out --state", quote(c.State.Dir), l.place("fleet.redis"))
	}
	if c.MaxPages != 0 {
		l.report("max_pages", l.origins["max_pages"], "counts the pages of one process, and fleet.redis%s has several; leave it out, and bound hosts by --max-pages-per-host", l.place("fleet.redis"))
	}
	for _, b := range c.Scope.Budgets {
		if strings.Contains(strings.SplitN(b, " ", 2)[0], "/crawl") {
			l.report("scope.budgets", l.origins["scope.budgets"], "%s counts the URLs of one process, and fleet.redis%s has several; bound them for each host, or exclude them", quote(b), l.place("fleet.redis"))
		}
	}
}

// termPrefixes begin the settings on which the processes of a job have to agree: what is in the
// frontier depends on them. How fast and with what name each asks, and what it writes, may
// change from process to process, as an operator does who restarts one after another.
var termPrefixes = []string{"scope.", "traps.", "sitemaps.", "depth", "max_pages_per_host", "robots.enabled", "robots.follow_nofollow", "fetch.max_redirects", "frontier.order"}

// Terms are the settings on which the processes of a job have to agree, by their paths. What is
// empty is left out.
func (c Config) Terms() map[string]string {
	terms := make(map[string]string)
	for _, f := range fields() {
		if f.noStruct || !hasPrefix(f.path, termPrefixes) {
			continue
		}
		v := get(&c, f.path)
		text := ""
		if items, ok := v.([]string); ok {
			text = strings.Join(items, ", ")
		} else {
			text = f.format(v)
		}
		if text != "" {
			terms[f.path] = text
		}
	}
	return terms
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
