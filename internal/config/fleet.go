package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/lazy"
)

// Shared reports whether the crawl is one of several processes.
func (f Fleet) Shared() bool { return f.Redis != "" }

var sentinelSecret = lazy.Regexp(`(sentinel_password=)[^&#]+`)

// RedactRedis returns the URL of a Redis without its secrets. A variable is not a secret.
func RedactRedis(s string) string {
	return sentinelSecret().ReplaceAllStringFunc(redactProxy(s), func(found string) string {
		name, value, _ := strings.Cut(found, "=")
		if access.Expands(value) {
			return found
		}
		return name + "=" + redacted
	})
}

func redisURL(s string) error {
	if strings.Contains(s, redacted) {
		return errPrinted
	}
	if access.Expands(s) { // a variable may be the port, or the whole URL
		return expandable(s)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || !slices.Contains(redisSchemes, u.Scheme):
		return fmt.Errorf("%s is no URL of a Redis: give redis://HOST:PORT, rediss:// with TLS, or unix:///PATH", document.Quote(RedactRedis(s)))
	case u.Hostname() == "" && u.Scheme != "unix":
		return fmt.Errorf("%s names no host: give redis://HOST:PORT", document.Quote(RedactRedis(s)))
	}
	return nil
}

var redisSchemes = []string{"redis", "rediss", "valkey", "valkeys", "unix"}

var (
	jobForm    = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)
	errJob     = errors.New("is no name: use 1 to 64 letters, digits, dots, hyphens and underscores")
	fileMarker = "{worker}"
)

func jobName(s string) error {
	if !jobForm().MatchString(s) {
		return fmt.Errorf("%s %w", document.Quote(s), errJob)
	}
	return nil
}

// workerName checks a name like that of a job, since it becomes part of file names.
func workerName(s string) error {
	if s == "." || s == ".." {
		return fmt.Errorf("%s %w", document.Quote(s), errJob)
	}
	return jobName(s)
}

// OfWorker replaces {worker} in a file name by the name of the process.
func OfWorker(path, worker string) string { return strings.ReplaceAll(path, fileMarker, worker) }

// HasWorker reports whether a file name contains {worker}.
func HasWorker(path string) bool { return strings.Contains(path, fileMarker) }

func (c checker) fleet() {
	f, cfg := &c.cfg.Fleet, &c.cfg
	switch {
	case f.Redis != "" && f.Job == "":
		c.wrong("fleet.job", "is empty, and fleet.redis is not%s: name the crawl that processes share, by --job", c.place("fleet.redis"))
	case f.Redis == "" && f.Job != "":
		c.wrong("fleet.redis", "is empty, and fleet.job is not%s: give the Redis that processes share, by --redis", c.place("fleet.job"))
	}
	if !f.Shared() {
		return
	}
	if cfg.State.Dir != "" {
		c.wrong("state.dir", "is %s, and a crawl of several processes is kept in fleet.redis%s; leave out --state", document.Quote(cfg.State.Dir), c.place("fleet.redis"))
	}
	if cfg.RateLimit.GlobalBytes > mostSharedBytes {
		c.wrong("ratelimit.global_bytes", "is more than the 1,000,000,000 bytes a second that fleet.redis%s can count for all processes; lower it, or leave it out", c.place("fleet.redis"))
	}
	for _, b := range cfg.Scope.Budgets {
		if strings.Contains(strings.SplitN(b, " ", 2)[0], "/crawl") {
			c.wrong("scope.budgets", "%s counts the URLs of one process, and fleet.redis%s has several; bound them for each host, or exclude them", document.Quote(b), c.place("fleet.redis"))
		}
	}
}

// mostSharedBytes is the highest rate, in bytes per second, that processes can share: an admission plan cannot be
// faster.
const mostSharedBytes = 1_000_000_000

// Terms returns the settings on which the processes of a job must agree, by their paths: those on which the content of
// the frontier depends, and budgets of all processes together. Empty values are left out.
func (c Config) Terms() map[string]string {
	terms := make(map[string]string)
	for _, f := range fields() {
		if f.agreed == never {
			continue
		}
		v := get(&c, f.path)
		if f.agreed == ifSet && reflect.ValueOf(v).IsZero() {
			continue
		}
		text := f.format(v)
		if items, ok := v.([]string); ok {
			text = strings.Join(items, ", ")
		}
		if text != "" {
			terms[f.path] = text
		}
	}
	return terms
}
