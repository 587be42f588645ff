package config

import (
	"io"
	"maps"
	"os"
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
	// Reader, if set, is read in place of opening File, which then only names it. The caller closes it.
	Reader io.Reader
	// Env are variables as [os.Environ] gives them. Only those that begin with CRAWL_ are looked at, and those of
	// OpenTelemetry that say where traces go; empty ones count as not set. Nil: none.
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

// Load reads the sources and returns their effective configuration. Every error is a [Problems] with all that is
// wrong; a file that could not be read is among them and can be told by [errors.Is] with fs.ErrNotExist and its like.
func Load(src Sources) (*Loaded, error) {
	l := loader{newTree(Default())}
	for _, f := range fields() {
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
	c := checker(l)
	c.all()
	if src.Saved != nil {
		c.saved(src.Saved)
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	c.warnings()
	slices.Sort(l.tree.warnings)
	delete(l.origins, enabledPath) // its origin is now the strategy's
	return &Loaded{Config: l.cfg, Origins: l.origins, Warnings: l.tree.warnings}, nil
}

type loader struct{ *tree }

type written struct {
	text string
	from Origin
}

func (l loader) store(path string, w written) {
	f := row(path)
	v, err := f.parse(w.text)
	switch {
	case err != nil:
		l.report(path, w.from, "%v", err)
	case f.noStruct:
		l.enable(v.(bool), w.from)
	case !l.set(path, v):
		l.report(path, w.from, "%s is out of range; give %s", document.Quote(w.text), f.want())
	default:
		l.origins[path] = w.from
	}
}

// storeList replaces a list. Words may stand in one item with commas between them, and an empty name of a
// file takes back those before it.
func (l loader) storeList(path string, items []written, o Origin) {
	f := row(path)
	for i := range l.get(path).([]string) {
		delete(l.origins, document.Item(path, i))
	}
	var texts []string // nil if empty, so that equal trees are equal
	var origins []Origin
	for _, item := range items {
		words := []string{item.text}
		if len(f.enum) > 0 {
			words = strings.Split(item.text, ",")
		} else if item.text == "" && f.arg == "file" {
			texts, origins, words = nil, nil, nil
		}
		for _, word := range words {
			if len(f.enum) > 0 {
				word = strings.TrimSpace(word)
			}
			texts, origins = append(texts, word), append(origins, item.from)
		}
	}
	for i, from := range origins {
		l.origins[document.Item(path, i)] = from
	}
	l.origins[path] = o
	l.set(path, texts)
}

// enabledPath is the second spelling of the strategy.
const (
	enabledPath  = "ratelimit.enabled"
	strategyPath = "ratelimit.strategy"
)

// enable chooses a strategy that paces or one that does not, unless the one chosen is such already.
func (l loader) enable(on bool, o Origin) {
	if on == l.cfg.RateLimit.Enabled() {
		return
	}
	l.cfg.RateLimit.Strategy, l.origins[strategyPath] = off, o
	if on {
		l.cfg.RateLimit.Strategy = row(strategyPath).def
	}
}

// loadEnv reads the variables. What begins with CRAWL_ and is no setting is a warning and not an error:
// orchestrators put variables of their own there, such as CRAWL_SERVICE_HOST for a service of that name.
func (l loader) loadEnv(environ []string) {
	vars := map[string]string{} // the last of two equal names wins, as for a process
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); name != envFile {
			vars[name] = value
		}
	}
	l.standardEnv(vars)
	var known []string
	for _, f := range fields() {
		value, name := vars[f.env()], f.env()
		delete(vars, name)
		known = append(known, strings.TrimPrefix(name, envPrefix))
		if value != "" {
			l.storeEnv(f.path, value, Origin{Source: fromEnv, Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		switch old := retired(name); {
		case old == nil:
			hint := ""
			if meant := spelling.Nearest(strings.TrimPrefix(name, envPrefix), known); meant != "" {
				hint = "; did you mean " + envPrefix + meant + "?"
			}
			l.warn("%s is not a setting and was ignored%s", document.Clip(name), hint)
		case vars[name] != "": // else as not set
			l.report(old.path, Origin{Source: fromEnv, Name: name}, "%s", old.says())
		}
	}
}

// envFile names the configuration file. Finding it is the caller's business, before
// there is a configuration, so it is no setting and no mistake either.
const envFile = envPrefix + "CONFIG"

// storeEnv splits the value of a list at line ends: patterns and headers may contain
// anything else that could separate them.
func (l loader) storeEnv(path, value string, o Origin) {
	if row(path).kind != kindList {
		l.store(path, written{value, o})
		return
	}
	var items []written
	for item := range strings.SplitSeq(strings.TrimSuffix(value, "\n"), "\n") {
		items = append(items, written{item, o})
	}
	l.storeList(path, items, o)
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
// comment says why; [checker.all] finds what it could not reconcile.
func (l loader) settle() {
	if format, _ := endingFormat(l.cfg.Output.Path); format != "" && !l.written("output.format") {
		l.cfg.Output.Format, l.origins["output.format"] = format, Origin{Source: fromFollows, Name: "output.path"}
	}
	for _, chain := range ordered {
		l.settleOrder(chain)
	}
	// Rules for hosts come last: they take over what has settled above.
	for i := range l.cfg.Hosts {
		path := document.Item(hostsPath, i) + "."
		for _, key := range hostKeys {
			if _, ok := l.origins[path+key]; !ok && !l.bad[path+key] {
				l.follow(path+key, inherit(key))
			}
		}
		l.settleCaps(i)
		l.settleOrder(hostOrder(i))
	}
}

// ordered are settings that must not fall.
var ordered = [][]string{
	{"ratelimit.min_rps", "ratelimit.initial_rps", "ratelimit.max_rps"},
	{"ratelimit.retry_base_delay", "ratelimit.retry_max_delay"},
}

// hostOrder is such a chain in a rule for hosts.
func hostOrder(i int) []string {
	path := document.Item(hostsPath, i) + "."
	return []string{path + "min_rps", path + "initial_rps", path + "max_rps"}
}

// settleOrder clamps each value that nobody wrote between its nearest written neighbours. Clamping keeps
// the order the defaults have among themselves.
func (l loader) settleOrder(chain []string) {
	for i, path := range chain {
		if l.written(path) {
			continue
		}
		for j, other := range chain {
			if !l.written(other) || row(other).inRange(l.get(other)) != nil {
				continue
			}
			if x, y := l.number(path), l.number(other); i < j && x > y || i > j && x < y {
				l.follow(path, other)
			}
		}
	}
}

func (l loader) follow(path, leader string) {
	l.set(path, l.get(leader))
	l.origins[path] = Origin{Source: fromFollows, Name: leader}
}
