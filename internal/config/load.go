package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// Sources are the layers that [Load] lays over the defaults. The zero Sources has
// none, and Load then returns [Default].
type Sources struct {
	// Saved is the configuration of the crawl that is resumed, which takes the place of the
	// defaults; see [Config.Save]. Nil: none is.
	Saved *Config
	// SavedIn is the directory of its state, for messages; without Saved, File is what was saved
	// there. Empty: not named.
	SavedIn string
	// File is the configuration file; its ending .json, .yaml or .yml chooses the
	// format, else its first character does. Empty: no file.
	File string
	// Reader, if set, is read in place of opening File, which then only names it.
	// The caller closes it.
	Reader io.Reader
	// Env are variables as [os.Environ] gives them. Only those that begin with CRAWL_
	// are looked at, and those of OpenTelemetry that say where traces go; empty ones count as
	// not set. Nil: none.
	Env   []string
	Flags []FlagValue // the flags that were given, in their order. Nil: none.
}

// Loaded is a checked configuration that knows where its values came from. It is not
// changed after [Load] and safe for concurrent use.
type Loaded struct {
	// Config has passed [Config.Validate].
	Config Config
	// Origins has one entry for each setting in Config, and for items of lists, by
	// path: "fetch.timeout", "scope.include[1]", "hosts[0].max_rps".
	Origins  map[string]Origin
	Warnings []string // worth telling the user, but no reason to stop. Sorted.
}

// Load reads the sources and returns their effective configuration. Every error is a
// [Problems] with all that is wrong; a file that could not be read is among them and
// can be told by [errors.Is] with fs.ErrNotExist and its like.
func Load(src Sources) (*Loaded, error) {
	l := newLoader(Default())
	for _, f := range l.rows {
		l.origins[f.path] = Origin{Source: fromDefault}
	}
	l.origins[hostsPath], l.origins[resiliencePath] = Origin{Source: fromDefault}, Origin{Source: fromDefault}
	if src.Saved != nil {
		l.loadSaved(src)
	}
	if src.File != "" || src.Reader != nil {
		l.loadFile(src)
	}
	if src.Saved == nil && src.SavedIn != "" {
		l.fromState(src.SavedIn)
	}
	l.loadEnv(src.Env)
	l.loadFlags(src.Flags)
	l.settle()
	l.validate()
	if src.Saved != nil {
		l.checkSaved(src.Saved)
	}
	l.warnOff()
	l.warnRecord()
	l.warnAccess()
	if l.cfg.Fetch.Contact == "" && l.cfg.Fetch.UserAgent == "" {
		l.warn("fetch.contact is empty: operators cannot tell whom to write to; give --contact with a URL or a mail address")
	}
	if r := &l.cfg.RateLimit; r.Remember != "" && !r.Enabled() {
		l.warn("ratelimit.remember: %q is neither read nor written, since nothing is learned of hosts with ratelimit.strategy off; leave --remember out, or give another strategy", r.Remember)
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	slices.Sort(l.warnings)
	delete(l.origins, enabledPath) // its origin is now the strategy's
	return &Loaded{Config: l.cfg, Origins: l.origins, Warnings: l.warnings}, nil
}

type loader struct {
	cfg      Config
	rows     []field
	hostRows []field
	origins  map[string]Origin
	problems Problems
	more     int // problems beyond problemsMax
	bad      map[string]bool
	warnings []string
}

// newLoader starts from c; the caller says where its values came from.
func newLoader(c Config) *loader {
	return &loader{cfg: c, rows: fields(), hostRows: hostFields(), origins: map[string]Origin{}, bad: map[string]bool{}}
}

// problemsMax is how many problems are kept. Nobody mends more in one go, and a large
// file of rubbish must not become a larger message.
const problemsMax = 100

// report notes a problem and marks its path as bad, so that the same value is not
// reported again for what follows from it.
func (l *loader) report(path string, o Origin, format string, args ...any) {
	l.bad[path] = true
	if len(l.problems) >= problemsMax {
		l.more++
		return
	}
	l.problems = append(l.problems, Problem{Path: path, Origin: o, Text: fmt.Sprintf(format, args...)})
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	l.problems.sort() // before the last line, which has no path and would come first
	if l.more > 0 {
		l.problems = append(l.problems, Problem{Text: fmt.Sprintf("and %d more", l.more)})
	}
	return l.problems
}

// store parses one written value and puts it into root, where path is the row's.
// full is the path from the top, which for a rule of hosts is longer.
func (l *loader) store(root any, f *field, full, text string, o Origin) {
	v, err := f.parse(text)
	if err != nil {
		l.report(full, o, "%v", err)
		return
	}
	if f.noStruct {
		l.enable(v.(bool), o)
		return
	}
	if !set(root, f.path, v) {
		l.report(full, o, "%s is out of range; give %s", document.Quote(text), f.want())
		return
	}
	l.origins[full] = o
}

func (l *loader) storeListAt(root any, f *field, full string, items []string, origins []Origin, o Origin) {
	for i := range get(root, f.path).([]string) {
		delete(l.origins, document.Item(full, i))
	}
	l.origins[full] = o
	var all []string // nil if empty, so that equal trees are equal
	for i, item := range items {
		words := []string{item}
		if len(f.enum) > 0 {
			words = strings.Split(item, ",")
		}
		for _, word := range words {
			if len(f.enum) > 0 {
				word = strings.TrimSpace(word)
			}
			l.origins[document.Item(full, len(all))] = origins[i]
			all = append(all, word)
		}
	}
	set(root, f.path, all)
}

// enabledPath is the second spelling of the strategy.
const (
	enabledPath  = "ratelimit.enabled"
	strategyPath = "ratelimit.strategy"
)

// enable chooses a strategy that paces or one that does not, unless the one chosen is such already.
func (l *loader) enable(on bool, o Origin) {
	if on == l.cfg.RateLimit.Enabled() {
		return
	}
	l.cfg.RateLimit.Strategy, l.origins[strategyPath] = off, o
	if on {
		l.cfg.RateLimit.Strategy = find(l.rows, strategyPath).def
	}
}

// loadEnv reads the variables. What begins with CRAWL_ and is no setting is a warning and not an error:
// orchestrators put variables of their own there, such as CRAWL_SERVICE_HOST for a service of that name.
func (l *loader) loadEnv(environ []string) {
	vars := map[string]string{} // the last of two equal names wins, as for a process
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, envPrefix) && name != envFile {
			vars[name] = value
		}
	}
	l.standardEnv(environ)
	for i := range l.rows {
		f := &l.rows[i]
		value, name := vars[f.env()], f.env()
		delete(vars, name)
		if value != "" {
			l.storeEnv(f, value, Origin{Source: fromEnv, Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if old := retired(name); old != nil && vars[name] == "" {
			continue // as not set
		} else if old != nil {
			l.report(old.path, Origin{Source: fromEnv, Name: name}, "%s", old.says())
			continue
		}
		l.warn("%s is not a setting and was ignored%s", document.Clip(name), l.meantEnv(name))
	}
}

// envFile names the configuration file. Finding it is the caller's business, before
// there is a configuration, so it is no setting and no mistake either.
const envFile = envPrefix + "CONFIG"

// storeEnv splits the value of a list at line ends: patterns and headers may contain
// anything else that could separate them.
func (l *loader) storeEnv(f *field, value string, o Origin) {
	if f.kind != kindList {
		l.store(&l.cfg, f, f.path, value, o)
		return
	}
	items := strings.Split(strings.TrimSuffix(value, "\n"), "\n")
	l.storeListAt(&l.cfg, f, f.path, items, slices.Repeat([]Origin{o}, len(items)), o)
}

func (l *loader) meantEnv(name string) string {
	names := make([]string, len(l.rows))
	for i := range l.rows {
		names[i] = strings.TrimPrefix(l.rows[i].env(), envPrefix)
	}
	if meant := spelling.Nearest(strings.TrimPrefix(name, envPrefix), names); meant != "" {
		return "; did you mean " + envPrefix + meant + "?"
	}
	return ""
}

// fileMax bounds a configuration file. A rule for a host is about 100 bytes, so there
// is room for ten thousand of them.
const fileMax = 1 << 20

func readFile(src Sources) (data []byte, err error) {
	r := src.Reader
	if r == nil {
		f, err := os.Open(src.File)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		r = f
	}
	return io.ReadAll(io.LimitReader(r, fileMax+1))
}

// settle moves values that nobody wrote next to those that somebody did. The package
// comment says why; [loader.validate] finds what it could not reconcile.
func (l *loader) settle() {
	// Rules for hosts come last: they take over what has settled above.
	if format, _ := endingFormat(l.cfg.Output.Path); format != "" && !l.origins["output.format"].written() {
		l.follow("output.format", format, "output.path")
	}
	l.settleSeeds()
	for _, chain := range ordered {
		l.settleOrder(&l.cfg, "", chain)
	}
	for i := range l.cfg.Hosts {
		rule, prefix := &l.cfg.Hosts[i], document.Item("hosts", i)+"."
		for _, key := range hostKeys {
			l.fill(rule, prefix, key)
		}
		l.settleCaps(rule, prefix)
		l.settleOrder(rule, prefix, hostOrdered)
	}
}

var ordered = [][]string{
	{"ratelimit.min_rps", "ratelimit.initial_rps", "ratelimit.max_rps"},
	{"ratelimit.retry_base_delay", "ratelimit.retry_max_delay"},
}

var hostOrdered = []string{"min_rps", "initial_rps", "max_rps"}

// settleOrder clamps each value that nobody wrote between its nearest written neighbours. Clamping keeps
// the order the defaults have among themselves.
func (l *loader) settleOrder(root any, prefix string, chain []string) {
	for i, path := range chain {
		if l.origins[prefix+path].written() {
			continue
		}
		for j, other := range chain {
			if !l.origins[prefix+other].written() || l.row(root, other).inRange(get(root, other)) != nil {
				continue
			}
			if wrongOrder(root, path, other, i < j) {
				at(root, path).Set(at(root, other))
				l.origins[prefix+path] = Origin{Source: fromFollows, Name: prefix + other}
			}
		}
	}
}

func wrongOrder(root any, a, b string, aFirst bool) bool {
	x, _ := number(get(root, a))
	y, _ := number(get(root, b))
	if aFirst {
		return x > y
	}
	return x < y
}

func (l *loader) fill(rule *Host, prefix, key string) {
	if _, ok := l.origins[prefix+key]; ok || l.bad[prefix+key] {
		return
	}
	from := inherit(key)
	at(rule, key).Set(at(&l.cfg, from))
	l.origins[prefix+key] = Origin{Source: fromFollows, Name: from}
}

// settleSeeds has an empty name take back the files of seeds before it.
func (l *loader) settleSeeds() {
	const path = "seeds.file"
	files := l.cfg.Seeds.Files
	from := len(files)
	for from > 0 && files[from-1] != "" {
		from--
	}
	if from == 0 {
		return
	}
	var origins []Origin
	for i := range files[from:] {
		origins = append(origins, l.origins[document.Item(path, from+i)])
	}
	l.storeListAt(&l.cfg, find(l.rows, path), path, files[from:], origins, l.origins[path])
}

// follow sets a value on behalf of another one, if that was written in a stronger
// layer than the value itself.
func (l *loader) follow(path string, value any, leader string) {
	if l.origins[path].rank() >= l.origins[leader].rank() {
		return
	}
	at(&l.cfg, path).Set(reflect.ValueOf(value))
	l.origins[path] = Origin{Source: fromFollows, Name: leader}
}
