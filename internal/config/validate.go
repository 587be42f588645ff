package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Validate checks a configuration that a program made or changed, by the same rules as [Load], but adjusts nothing: a
// contradiction is an error. It returns nil or [Problems].
func (c Config) Validate() error {
	t := newTree(c)
	checker{t}.all()
	return t.err()
}

// checker checks a whole tree against the table, and its parts against each other.
type checker struct{ *tree }

func (c checker) all() {
	for _, f := range fields() {
		if !f.noStruct {
			c.check(f.path)
		}
	}
	for _, chain := range ordered {
		c.order(chain)
	}
	c.hosts()
	c.window()
	c.policies()
	c.files()
	c.ending()
	c.listen()
	c.fleet()
	c.certificates()
	c.archives()
	c.rules()
	c.login()
	c.render()
}

// render reports settings for rendered pages in a crawl that renders none.
func (c checker) render() {
	r := &c.cfg.Render
	for path, given := range map[string]bool{"render.steps": len(r.Steps) > 0, "render.screenshot": r.Screenshot != ""} {
		if given && r.Mode == "never" {
			c.wrong(path, "is for pages that are rendered, and none is; give --render auto or always")
		}
	}
	if slices.Contains(r.Steps, "pdf") && r.Screenshot == "" {
		c.wrong("render.steps", "has pdf, and no directory for it: give --screenshot DIR")
	}
}

// check checks one value against its row. A problem that was reported when the value was read is not reported again.
func (c checker) check(path string) {
	if c.bad[path] || c.origins[path].Source == fromFollows {
		return // a value that follows another is correct if the other is
	}
	f, v := row(path), c.get(path)
	if items, ok := v.([]string); ok {
		for i, item := range items {
			at := document.Item(path, i)
			if len(f.enum) > 0 && !slices.Contains(f.enum, item) {
				c.wrong(at, "%s is none of the words; give %s", document.Quote(item), f.want())
			}
			if f.check != nil {
				c.reportIf(at, f.check(item))
			}
		}
		if f.most > 0 && len(items) > f.most {
			c.wrong(path, "has %d rules; give at most %d", len(items), f.most)
		}
		return
	}
	// A value out of range is not checked further: 0 shards are too few, and that
	// they are no power of two does not help anybody.
	if err := f.inRange(v); err != nil {
		c.reportIf(path, err)
		return
	}
	text := f.format(v)
	if f.kind == kindChoice && !slices.Contains(f.enum, text) {
		c.wrong(path, "%s is not a choice; give %s", document.Quote(text), f.want())
	}
	if f.check != nil && (text != "" || f.def != "" || f.path == hostMatch.path) {
		c.reportIf(path, f.check(text))
	}
}

func (c checker) reportIf(path string, err error) {
	if err != nil {
		c.wrong(path, "%v", err)
	}
}

// order reports pairs that are in the wrong order. Only written values can be, since others are adjusted.
func (c checker) order(chain []string) {
	for i, a := range chain {
		for _, b := range chain[i+1:] { // all pairs, as a value between them may not be written
			if !c.bad[a] && !c.bad[b] && c.written(a) && c.written(b) && c.number(a) > c.number(b) {
				c.wrong(a, "%s is above %s, which is %s%s; lower %s or raise %s", c.show(a), b, c.show(b), c.place(b), handle(a), handle(b))
			}
		}
	}
}

// handle returns what a user would change: the flag of a setting if it has one, otherwise its path.
func handle(path string) string {
	if f := row(path); f.flag != "" {
		return "--" + f.flag
	}
	return path
}

// hosts checks each rule, and that it is not covered by an earlier one, as nobody would notice that a rule never
// applies.
func (c checker) hosts() {
	var before ratelimit.Patterns
	for i := range c.cfg.Hosts {
		rule, path := &c.cfg.Hosts[i], document.Item(hostsPath, i)
		for _, f := range hostFields() {
			c.hostRow(rule, &f, path+"."+f.path)
		}
		if rule.Cap.Kind == concurrency && rule.Cap.Per != 0 {
			c.wrong(path+".cap.per", "is not for the kind concurrency, which counts the requests that are out; remove it")
		}
		c.order(hostOrder(i))
		other := before.Find(rule.Match) // a pattern covers those that it matches itself
		before.Add(rule.Match, i)
		if other >= 0 && !c.bad[path+".match"] {
			c.wrong(path+".match", "%s is covered by hosts[%d], %s, and the first that matches counts; put it before that or remove it",
				document.Quote(rule.Match), other, document.Quote(c.cfg.Hosts[other].Match))
		}
	}
}

// hostRow checks one value of a rule. A missing part of a cap is reported at the place where the rule begins.
func (c checker) hostRow(rule *Host, f *field, path string) {
	switch {
	case rule.unset(f) || rule.needless(f) || c.bad[path]:
	case section(f.path) != "" && at(rule, f.path).IsZero() && c.origins[path] == (Origin{}):
		c.report(path, c.origins[strings.TrimSuffix(path, f.path)+"match"], "is missing; give %s", f.want())
	default:
		c.check(path)
	}
}

// stepsMax is how many steps a window may have. Every step takes memory per host, and a finer window does not decide
// earlier than its samples arrive.
const stepsMax = 1000

// window checks that the window is a whole number of steps. Nothing is adjusted here: a silently rounded window would
// falsify the figures of the breaker.
func (c checker) window() {
	const path, other = "ratelimit.stats_window", "ratelimit.stats_bucket"
	window, step := c.cfg.RateLimit.StatsWindow, c.cfg.RateLimit.StatsBucket
	switch {
	case c.bad[path] || c.bad[other]: // this includes a step of zero, by which one cannot divide
	case window%step != 0:
		c.wrong(path, "%s is not a whole number of %s, which is %s%s; give %s",
			c.show(path), other, c.show(other), c.place(other), ratelimit.Span(window-window%step+step))
	case window/step > stepsMax:
		c.wrong(path, "%s is more than %d times %s, which is %s%s; give at most %s or raise the other",
			c.show(path), stepsMax, other, c.show(other), c.place(other), ratelimit.Span(stepsMax*step))
	}
}

// files reports files to which several outputs would be written, or that would be replaced while they are read.
func (c checker) files() {
	writers := []string{"output.path", "stats.path", "output.events", "output.skipped", "ratelimit.remember"}
	for i, path := range writers {
		name := c.get(path).(string)
		for _, other := range append(writers[:i:i], "seeds.file") {
			is := c.get(other)
			seeds, _ := is.([]string)
			if is != name && !slices.Contains(seeds, name) || name == "" || name == "-" && path != "stats.path" { // standard output and standard input are different streams
				continue
			}
			c.wrong(path, "%s is %s as well%s; change %s or %s", document.Quote(name), other, c.place(other), handle(path), handle(other))
		}
	}
}

// own reports whether all seeds are of this machine: whoever runs it needs no contact.
func (c checker) own(seeds []string) bool {
	return len(seeds) > 0 && len(c.cfg.Seeds.Files) == 0 && !slices.ContainsFunc(seeds, func(s string) bool {
		u, err := canonical.ParseTyped(s)
		return err != nil || !reach.Own(u.Hostname())
	})
}

// warnings warns of what is no error.
func (c checker) warnings(seeds []string) {
	c.warnOff()
	c.warnRate()
	c.warnRecord()
	c.warnAccess()
	if c.cfg.Fetch.Contact == "" && c.cfg.Fetch.UserAgent == "" && !c.own(seeds) {
		c.warn("fetch.contact is empty: operators cannot tell whom to write to; give --contact with a URL or a mail address")
	}
	if r := &c.cfg.RateLimit; r.Remember != "" && !r.Enabled() {
		c.warn("ratelimit.remember: %q is neither read nor written, since nothing is learned of hosts with ratelimit.strategy off; leave --remember out, or give another strategy", r.Remember)
	}
}

// warnRate warns of --rate alone where hosts may be asked faster: other programs have a limit by that name.
func (c checker) warnRate() {
	r := &c.cfg.RateLimit
	strategy, err := control.Find(r.Strategy) // an error if it is off
	if err == nil && strategy.Learns && c.origins["ratelimit.initial_rps"].Source == fromFlag && !c.written("ratelimit.max_rps") && r.InitialRPS < r.MaxRPS {
		c.warn("--rate %[1]v is the rate to begin with, and a host that bears it is asked up to %[2]v times per second; for a limit give --max-rate %[1]v", r.InitialRPS, r.MaxRPS)
	}
}
