package job

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/items"
)

// If there are rules for items, an output that is a file holds the items alone, of all kinds. An output that is a
// directory holds the records of pages as without rules, and a file for the items of each kind next to them.

// itemRules returns the rules for items, or nil if there are none.
func itemRules(cfg *config.Config) *items.Rules {
	rules, err := cfg.Extract.Rules()
	if err != nil || len(rules.Kinds) == 0 { // an error was reported with the settings
		return nil
	}
	return rules
}

// itemsAlone reports whether the output holds items in place of records.
func (j *Job) itemsAlone() bool { return itemRules(j.Settings) != nil && !j.outputIsDir() }

// recordsBase is how the names begin that layOut chooses for files of records.
const recordsBase = "records"

func (j *Job) outputIsDir() bool {
	dir, name := filepath.Split(j.Settings.Output.Path)
	if !strings.HasPrefix(name, recordsBase) {
		return false
	}
	return j.own || j.Settings.State.Dir != "" && filepath.Clean(dir) == filepath.Clean(j.Settings.State.Dir)
}

func (j *Job) openSinks() (err error) {
	o, rules := &j.Settings.Output, itemRules(j.Settings)
	if rules == nil || o.Format == string(sink.WARC) {
		j.out, err = j.openSink(o.Path, nil)
		return err
	}
	table := sink.Format(o.Format).Spec()
	config := func(names ...string) *sink.ItemsConfig {
		c := &sink.ItemsConfig{Kinds: names, Fields: rules.Fields()}
		if table.Separator != 0 {
			c.Columns, _ = rules.Columns(names[0]) // the settings were checked
		}
		return c
	}
	names := rules.Names()
	if !j.outputIsDir() {
		if table.Separator != 0 && len(names) > 1 {
			return cli.Usagef("--output %s: a table has items of one kind, and there are rules for %s: give -o with a directory, in which each has a file", o.Path, strings.Join(names, ", "))
		}
		j.out, err = j.openSink(o.Path, config(names...))
		return err
	}
	if j.out, err = j.openSink(o.Path, nil); err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, recordsBase) {
			return cli.Usagef("items called %s would be in the file of the records: give them another name", name)
		}
		dir, file := filepath.Split(o.Path)
		w, err := j.openSink(filepath.Join(dir, name+strings.TrimPrefix(file, recordsBase)), config(name))
		if err != nil {
			return err
		}
		j.items = append(j.items, w)
	}
	return nil
}

func (j *Job) closeSinks() error {
	errs := []error{j.out.Close(), j.archive.Close()}
	for _, w := range j.items {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// itemSummary returns, in words, how many items were written and which fields they lack; "" without rules for items.
// With under, the crawl is still running.
func (j *Job) itemSummary(under bool) string {
	if itemRules(j.Settings) == nil {
		return ""
	}
	var all []string
	for _, w := range slices.Concat([]*destination{j.out}, j.items) {
		if s, ok := w.Durable.(*sink.Items); ok {
			all = append(all, s.Summary()...)
		}
	}
	switch {
	case len(all) > 0:
	case under:
		return "none yet"
	default:
		return "none; 'crawl try URL' with the same flags shows what they match on a page;"
	}
	return strings.Join(all, "; ")
}
