package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// Validate checks a configuration that a program made or changed, by the same rules
// as [Load] but moving nothing: what contradicts is an error. It returns nil or
// [Problems].
func (c Config) Validate() error {
	l := newLoader(c)
	l.validate()
	return l.err()
}

func (l *loader) validate() {
	for i := range l.rows {
		if f := &l.rows[i]; !f.noStruct {
			l.check(&l.cfg, f, f.path)
		}
	}
	for _, chain := range ordered {
		l.checkOrder(&l.cfg, "", chain)
	}
	l.checkHosts()
	l.checkWindow()
	l.checkPolicies()
	l.checkFields()
	l.checkRest()
}

// check holds one value against its row. What was reported when it was read stays the
// only report.
func (l *loader) check(root any, f *field, full string) {
	if l.bad[full] || l.origins[full].Source == fromFollows {
		return // a value that follows another is right if that one is
	}
	v := get(root, f.path)
	if items, ok := v.([]string); ok {
		for i, item := range items {
			path := document.Item(full, i)
			if len(f.enum) > 0 && !slices.Contains(f.enum, item) {
				l.report(path, l.origins[path], "%s is none of the words; give %s", document.Quote(item), f.want())
			}
			if f.check != nil {
				l.reportIf(path, f.check(item))
			}
		}
		return
	}
	// A value out of range is not looked at further: 0 shards are too few, and that
	// they are no power of two helps nobody.
	if err := f.inRange(v); err != nil {
		l.reportIf(full, err)
		return
	}
	text := f.format(v)
	if f.kind == kindChoice && !slices.Contains(f.enum, text) {
		l.report(full, l.origins[full], "%s is not a choice; give %s", document.Quote(text), f.want())
	}
	if f.check != nil && (text != "" || f.def != "" || f.path == hostMatch.path) {
		l.reportIf(full, f.check(text))
	}
}

func (l *loader) reportIf(path string, err error) {
	if err != nil {
		l.report(path, l.origins[path], "%v", err)
	}
}

// checkOrder reports pairs that fall. Only written values can: the others moved.
func (l *loader) checkOrder(root any, prefix string, chain []string) {
	for i, low := range chain {
		for _, high := range chain[i+1:] { // pairs, for the one between may not be written
			a, b := prefix+low, prefix+high
			if l.bad[a] || l.bad[b] || !l.origins[a].written() || !l.origins[b].written() ||
				!wrongOrder(root, low, high, true) {
				continue
			}
			l.report(a, l.origins[a], "%s is above %s, which is %s%s; lower %s or raise %s",
				l.show(root, low), b, l.show(root, high), l.place(b), l.handle(a), l.handle(b))
		}
	}
}

func (l *loader) row(root any, path string) *field { return find(l.rowsOf(root), path) }

func (l *loader) rowsOf(root any) []field {
	if _, ok := root.(*Host); ok {
		return l.hostRows
	}
	return l.rows
}

func (l *loader) show(root any, path string) string {
	return l.row(root, path).format(get(root, path))
}

func (l *loader) place(path string) string {
	if o := l.origins[path]; o.Source != "" {
		return " [" + o.String() + "]"
	}
	return ""
}

func (l *loader) handle(path string) string {
	if f := find(l.rows, path); f != nil {
		return f.handle()
	}
	return path
}

// checkHosts checks each rule alone, and that it is not hidden behind an earlier one,
// as a rule that never applies is a mistake nobody would see.
func (l *loader) checkHosts() {
	for i := range l.cfg.Hosts {
		rule, path := &l.cfg.Hosts[i], document.Item("hosts", i)
		for j := range l.hostRows {
			l.checkHostRow(rule, &l.hostRows[j], path)
		}
		l.checkCaps(rule, path)
		l.checkOrder(rule, path+".", hostOrdered)
		other := slices.IndexFunc(l.cfg.Hosts[:i], func(h Host) bool { return covers(h.Match, rule.Match) })
		if other >= 0 && !l.bad[path+".match"] {
			l.report(path+".match", l.origins[path+".match"], "%s is covered by hosts[%d], %s, and the first that matches counts; put it before that or remove it",
				document.Quote(rule.Match), other, document.Quote(l.cfg.Hosts[other].Match))
		}
	}
}

// covers reports whether a rule matches all that another does. One without a port matches every port.
func covers(rule, other string) bool {
	if _, port := splitPort(rule); port == "" {
		other, _ = splitPort(other)
	}
	below, wild := strings.CutPrefix(rule, "*")
	return rule == other || wild && strings.HasSuffix(other, below)
}

// stepsMax is how many steps a window may have. Every host pays for each of them, and
// a finer window decides no earlier than its samples arrive.
const stepsMax = 1000

// checkWindow checks that the window can be cut into its steps. Nothing moves here: a
// window that is rounded in silence would make the breaker's figures wrong.
func (l *loader) checkWindow() {
	const path, other = "ratelimit.stats_window", "ratelimit.stats_bucket"
	window, step := l.cfg.RateLimit.StatsWindow, l.cfg.RateLimit.StatsBucket
	switch {
	case l.bad[path] || l.bad[other]: // a step of zero among them, which cannot divide
	case window%step != 0:
		l.report(path, l.origins[path], "%s is not a whole number of %s, which is %s%s; give %s",
			formatDuration(window), other, formatDuration(step), l.place(other), formatDuration(window-window%step+step))
	case window/step > stepsMax:
		l.report(path, l.origins[path], "%s is more than %d times %s, which is %s%s; give at most %s or raise the other",
			formatDuration(window), stepsMax, other, formatDuration(step), l.place(other), formatDuration(stepsMax*step))
	}
}

// apart are files that would have the lines of others in them, or be replaced under those who read them.
var apart = []struct {
	path string
	from []string
}{
	{"ratelimit.remember", []string{"output.path", "output.events", "stats.path", "seeds.file"}},
	{"stats.path", []string{"output.path"}},
	{"output.events", []string{"output.path", "stats.path"}},
}

func (l *loader) checkRest() {
	for _, a := range apart {
		name := get(&l.cfg, a.path).(string)
		for _, path := range a.from {
			is := get(&l.cfg, path)
			files, _ := is.([]string)
			if is != name && !slices.Contains(files, name) || name == "" || name == "-" && a.path != "stats.path" { // another stream than theirs
				continue
			}
			l.report(a.path, l.origins[a.path], "%s is %s as well%s; change %s or %s", document.Quote(name), path, l.place(path), l.handle(a.path), l.handle(path))
		}
	}
	l.checkEnding()
	l.checkListen()
	l.checkFleet()
	l.checkAccess()
	l.checkArchives()
}
