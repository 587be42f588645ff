package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/config"
)

// loadAgain is load for a process that has loaded before. A pipe has been read to its end
// by then, and a file of no bytes is one that an editor is about to write: taken for what
// they say, both would lift whatever the user has laid down, in the middle of a crawl.
func (s *settings) loadAgain(env []string) (*config.Loaded, error) {
	if err := s.readable(s.fileIn(env)); err != nil {
		return nil, err
	}
	return s.load(env)
}

// readable reports whether a file can be read for a second time.
func (s *settings) readable(file string) error {
	if info, err := os.Stat(file); err == nil { // load tells what is wrong otherwise
		switch {
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no regular file and can be read only once: give --config a file to change settings later", file)
		case info.Size() == 0:
			return fmt.Errorf("%s is empty: to go back to the defaults write {} into it", file)
		}
	}
	return nil
}

// reloader is what SIGHUP asks for; nil if there is no file to read again. Flags and
// variables stay stronger than the file, as at the start. Whatever is wrong with the file,
// the crawl goes on as it was.
func (j *job) reloader(c *crawl.Crawler) func() {
	if j.reread == nil {
		return nil
	}
	return func() {
		loaded, err := j.reread()
		if err == nil {
			err = layOut(&loaded.Config)
		}
		if err != nil {
			j.log.Error("the configuration cannot be read again; the crawl goes on with the old one", slog.Any("error", err))
			return
		}
		applied, refused, err := c.Reload(&loaded.Config)
		if err != nil {
			j.log.Error("the configuration cannot be changed so; the crawl goes on with the old one", slog.Any("error", err))
			return
		}
		for _, change := range applied {
			if change.Path == "log.level" {
				j.level.Set(levelOf(loaded.Config.Log.Level))
			}
			j.log.Info("a setting has changed", slog.String("setting", change.Path), slog.String("was", change.Was), slog.String("is", change.Is))
		}
		if len(refused) > 0 {
			j.log.Warn("settings that cannot change while a crawl runs stay as they were; start it anew to change them",
				slog.String("settings", paths(refused)))
		}
		if len(applied)+len(refused) == 0 {
			j.log.Info("the configuration was read again and says the same")
		}
	}
}

func paths(changes []crawl.Change) string {
	names := make([]string, len(changes))
	for i := range changes {
		names[i] = changes[i].Path
	}
	return strings.Join(names, ", ")
}
