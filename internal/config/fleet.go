package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
)

// Shared reports whether the crawl is one of several processes.
func (f Fleet) Shared() bool { return f.Redis != "" }

// mostSecret bounds a file with a password, and mostPEM one with authorities.
const (
	mostSecret = 4 << 10
	mostPEM    = 1 << 20
)

// Client is how the Redis of the fleet is reached: its URL, with the variables that lookup knows in it, and what is
// in the files of its password and of its authorities. No error has the password in it.
func (f Fleet) Client(lookup func(string) (string, bool)) (rueidis.ClientOption, error) {
	o, err := ParseRedis(f.Redis, lookup)
	if err != nil {
		return o, fmt.Errorf("fleet.redis: %w", err)
	}
	if f.PasswordFile != "" {
		secret, err := readSome(f.PasswordFile, mostSecret)
		if err != nil {
			return o, fmt.Errorf("fleet.password_file: %w", err)
		}
		o.Password = strings.TrimRight(string(secret), "\r\n")
		if o.Password == "" || strings.ContainsAny(o.Password, "\r\n") {
			return o, fmt.Errorf("fleet.password_file: %s is not one line with a password", f.PasswordFile)
		}
	}
	if f.CAFile == "" {
		return o, nil
	}
	if o.TLSConfig == nil {
		return o, fmt.Errorf("fleet.ca_file: %s is for TLS, and fleet.redis has none: let it begin with rediss://", f.CAFile)
	}
	pem, err := readSome(f.CAFile, mostPEM)
	if err != nil {
		return o, fmt.Errorf("fleet.ca_file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // as on a machine without any
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return o, fmt.Errorf("fleet.ca_file: %s has no certificate: give a PEM file, which has lines of -----BEGIN CERTIFICATE-----", f.CAFile)
	}
	o.TLSConfig.RootCAs = roots
	if o.Sentinel.TLSConfig != nil {
		o.Sentinel.TLSConfig.RootCAs = roots
	}
	return o, nil
}

func readSome(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes: is it the right file?", path, most)
	}
	return data, err
}

// ParseRedis reads fleet.redis, with the variables that lookup knows in it. What stands for a
// user or a password is taken as it is, whatever characters it has. Beside what the format
// has, sentinel_username and sentinel_password are what the Sentinels of master_set want.
func ParseRedis(text string, lookup func(string) (string, bool)) (rueidis.ClientOption, error) {
	who, rest := "", text
	if at := strings.LastIndexByte(text, '@'); at >= 0 && strings.Contains(text[:at], "://") {
		who, rest = text[:at], text[at:]
	}
	who, errWho := access.Expand(who, func(name string) (string, bool) {
		value, ok := lookup(name)
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), ok
	})
	rest, err := access.Expand(rest, lookup)
	if err = errors.Join(errWho, err); err != nil {
		return rueidis.ClientOption{}, err
	}
	o, err := rueidis.ParseURL(who + rest)
	if err != nil { // whose words may have the password in them
		return o, fmt.Errorf("%s is no URL of a Redis: give redis://HOST:PORT, rediss:// with TLS, or unix:///PATH", document.Quote(redactRedis(text)))
	}
	if len(o.InitAddress) == 0 || strings.HasPrefix(o.InitAddress[0], ":") {
		return o, fmt.Errorf("%s names no host: give redis://HOST:PORT", document.Quote(redactRedis(text)))
	}
	u, err := url.Parse(who + rest)
	if err != nil { // it has just been parsed
		return o, errors.New("is no URL")
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.Username, o.Sentinel.Password = u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
		o.Sentinel.TLSConfig = o.TLSConfig.Clone()
	}
	if o.TLSConfig != nil && (o.Sentinel.MasterSet != "" || len(o.InitAddress) > 1) {
		o.TLSConfig.ServerName = "" // each by the name or address by which it is reached
		if o.Sentinel.TLSConfig != nil {
			o.Sentinel.TLSConfig.ServerName = ""
		}
	}
	return o, nil
}

var sentinelSecret = regexp.MustCompile(`(sentinel_password=)[^&#]+`)

// redactRedis is a URL of a Redis without its secrets. A variable is none.
func redactRedis(s string) string {
	return sentinelSecret.ReplaceAllStringFunc(redactProxy(s), func(found string) string {
		name, value, _ := strings.Cut(found, "=")
		if access.Expands(value) {
			return found
		}
		return name + "=" + redacted
	})
}

// redisURL checks the form of fleet.redis; what variables hold is known when it is used.
func redisURL(s string) error {
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
	jobForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })
	errJob     = errors.New("is no name: use 1 to 64 letters, digits, dots, hyphens and underscores")
	fileMarker = "{worker}"
)

func jobName(s string) error {
	if !jobForm().MatchString(s) {
		return fmt.Errorf("%s %w", document.Quote(s), errJob)
	}
	return nil
}

// workerName is checked like the job's: it becomes part of names of files.
func workerName(s string) error {
	if s == "." || s == ".." {
		return fmt.Errorf("%s %w", document.Quote(s), errJob)
	}
	return jobName(s)
}

// OfWorker is a name of a file with that of the process in the place of {worker}.
func OfWorker(path, worker string) string { return strings.ReplaceAll(path, fileMarker, worker) }

// HasWorker reports whether a name of a file has {worker} in it.
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

// mostSharedBytes per second are as much as processes can share: an admission plan is no faster.
const mostSharedBytes = 1_000_000_000

// Terms are the settings on which the processes of a job have to agree, by their paths: what is in the frontier
// depends on them, and budgets are of all together. What is empty is left out.
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
