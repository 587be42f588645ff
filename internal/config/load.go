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

// Sources are the layers that [Load] puts on top of the defaults. For the zero Sources Load returns [Default].
type Sources struct {
	// Saved is the configuration of the crawl that is resumed, which replaces the defaults; see [Config.Save]. Nil
	// means that none is resumed.
	Saved *Config
	// SavedIn is the directory of its state, for messages. Without Saved it says that File is what was saved there.
	// Empty means neither.
	SavedIn string
	// File is the configuration file. Its ending .json, .yaml or .yml chooses the format, otherwise its first character
	// does. Empty means no file.
	File string
	// Reader, if set, is read instead of opening File, which then is only its name. The caller closes it.
	Reader io.Reader
	// Env are variables as [os.Environ] returns them. Only those that begin with CRAWL_ are used, and those of
	// OpenTelemetry that say where traces are sent; empty ones count as not set. Nil means none.
	Env   []string
	Flags []FlagValue // the given flags in their order; nil means none
	Seeds []string    // arguments of the command, for warnings alone; those that are no URLs do not matter
}

// Loaded is a checked configuration that knows where its values come from. It is not changed after [Load], and safe for
// concurrent use.
type Loaded struct {
	// Config has passed [Config.Validate].
	Config Config
	// Origins has one entry for each setting in Config, and for each item of a list, by path: "fetch.timeout",
	// "scope.include[1]", "hosts[0].max_rps".
	Origins  map[string]Origin
	Warnings []string // what the user should know, although it is no error; sorted
}

// Load reads the sources and returns their effective configuration. Every error is a [Problems] with all that is wrong.
// A file that could not be read is among them, and [errors.Is] recognizes fs.ErrNotExist and similar errors.
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
	c.warnings(src.Seeds)
	slices.Sort(l.tree.warnings)
	delete(l.origins, enabledPath) // the strategy has its origin
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

// storeList replaces a list. An item of a list of words may contain several words, separated by commas, and an empty
// file name removes the names before it.
func (l loader) storeList(path string, items []written, o Origin) {
	f := row(path)
	for i := range l.get(path).([]string) {
		delete(l.origins, document.Item(path, i))
	}
	var texts []string // nil if empty, so that trees compare equal
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

// enabledPath is a second spelling of the strategy.
const (
	enabledPath  = "ratelimit.enabled"
	strategyPath = "ratelimit.strategy"
)

// enable sets a strategy that paces or one that does not, unless the present one is already of that sort.
func (l loader) enable(on bool, o Origin) {
	if on == l.cfg.RateLimit.Enabled() {
		return
	}
	l.cfg.RateLimit.Strategy, l.origins[strategyPath] = off, o
	if on {
		l.cfg.RateLimit.Strategy = row(strategyPath).def
	}
}

// loadEnv reads the variables. A variable that begins with CRAWL_ and is no setting gives a warning and no error:
// orchestrators set variables of their own, such as CRAWL_SERVICE_HOST for a service named crawl.
func (l loader) loadEnv(environ []string) {
	vars := map[string]string{} // the last of two equal names applies, as in a process
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
		switch path, says := retired(name); {
		case path == "":
			hint := ""
			if meant := spelling.Nearest(strings.TrimPrefix(name, envPrefix), known); meant != "" {
				hint = "; did you mean " + envPrefix + meant + "?"
			}
			l.warn("%s is not a setting and was ignored%s", document.Clip(name), hint)
		case vars[name] != "": // an empty variable counts as not set
			l.report(path, Origin{Source: fromEnv, Name: name}, "%s", says)
		}
	}
}

// envFile names the configuration file. The caller looks it up before there is a configuration, so it is neither a
// setting nor a mistake.
const envFile = envPrefix + "CONFIG"

// storeEnv splits the value of a list at line ends, because patterns and headers may contain any other separator.
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

// fileMax bounds the size of a configuration file. A rule for a host takes about 100 bytes, so there is room for ten
// thousand rules.
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

// settle adjusts values that nobody wrote to those that somebody did, as the package comment says. What it cannot
// reconcile is found by [checker.all].
func (l loader) settle() {
	if format, _ := endingFormat(l.cfg.Output.Path); format != "" && !l.written("output.format") {
		l.cfg.Output.Format, l.origins["output.format"] = format, Origin{Source: fromFollows, Name: "output.path"}
	}
	for _, chain := range ordered {
		l.settleOrder(chain)
	}
	// Rules for hosts come last: they inherit values adjusted above.
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

// ordered are chains of settings whose values must not decrease.
var ordered = [][]string{
	{"ratelimit.min_rps", "ratelimit.initial_rps", "ratelimit.max_rps"},
	{"ratelimit.retry_base_delay", "ratelimit.retry_max_delay"},
}

// hostOrder returns such a chain for a rule for hosts.
func hostOrder(i int) []string {
	path := document.Item(hostsPath, i) + "."
	return []string{path + "min_rps", path + "initial_rps", path + "max_rps"}
}

// settleOrder clamps each value that nobody wrote between its nearest written neighbors. Clamping keeps the order that
// the defaults have among themselves.
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
