package assembly

import (
	"os"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
	"github.com/treadlight/crawl/record"
)

// ArchiveConfig says where and how exchanges are archived. Package crawl documents the fields.
type ArchiveConfig struct {
	Dir      string
	File     bool
	Settings Settings
	Version  string
	Resume   *record.Position
	GoOn     bool
}

// OpenArchive opens a directory for web archives (WARC/1.1 files with an index beside each), or one such file.
func OpenArchive(cfg ArchiveConfig) (record.Durable, error) {
	s := &cfg.Settings.WARC
	wc := warc.Config{
		Single: cfg.File, Prefix: s.Prefix, MaxSize: s.MaxSize, Info: archiveInfo(&cfg),
		Credentials: s.Credentials, Cookies: keepsCookies(&cfg.Settings.Access), Redact: secrets(&cfg.Settings), ObeyNoArchive: s.NoArchive == "obey",
	}
	if s.Host {
		wc.Host = hostname()
	}
	switch {
	case cfg.Resume != nil:
		wc.Existing, wc.Position, wc.Records = sink.Resume, cfg.Resume.Bytes, cfg.Resume.Records
	case cfg.Settings.Output.Overwrite:
		wc.Existing = sink.Overwrite
	case cfg.GoOn:
		wc.Existing = sink.Append
	}
	w, err := warc.Open(cfg.Dir, wc)
	if err != nil { // a nil *Writer would make the interface non-nil
		return nil, err
	}
	return w, nil
}

// secrets returns what redacts requests: header fields with names that look like secrets, and those that are for one
// host alone or get their values from the environment.
func secrets(s *Settings) *redact.Redactor {
	lines := slices.DeleteFunc(slices.Clone(s.Fetch.Headers), func(line string) bool { return !access.Expands(line) })
	for i := range s.Hosts {
		lines = append(lines, s.Hosts[i].Headers...)
	}
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, ":")
	}
	return redact.New(lines...)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// unarchived are the sections of the settings that say nothing about what was crawled: names of local files, and how
// people are informed.
var unarchived = []string{"seeds", "output", "warc", "state", "frontier", "stats", "listen", "log", "fleet"}

// archiveInfo returns what each archive file says about who wrote it, in fields of the standard, and about the
// settings, in a field of our own.
func archiveInfo(cfg *ArchiveConfig) []warc.Field {
	s := &cfg.Settings
	robots, product := "obey", config.Product
	if !s.Robots.Enabled {
		robots = "ignore"
	}
	if cfg.Version != "" {
		product += "/" + cfg.Version
	}
	info := []warc.Field{
		{Name: "software", Value: product + " (" + Homepage + ")"},
		{Name: "http-header-user-agent", Value: s.Fetch.Agent(cfg.Version)},
		{Name: "robots", Value: robots},
		{Name: "operator", Value: s.Fetch.Contact},
	}
	if s.WARC.Host {
		info = append(info, warc.Field{Name: "hostname", Value: hostname()})
	}
	base := config.Default()
	for _, change := range config.Diff(&base, s) {
		if section, _, _ := strings.Cut(change.Path, "."); !slices.Contains(unarchived, section) {
			info = append(info, warc.Field{Name: "setting", Value: change.Path + ": " + change.Is})
		}
	}
	return info
}
