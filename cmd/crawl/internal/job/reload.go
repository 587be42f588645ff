package job

import (
	"log/slog"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// reloader is what SIGHUP asks for; nil if there is no file to read again. Flags and
// variables stay stronger than the file, as at the start. Whatever is wrong with the file,
// the crawl goes on as it was.
func (j *Job) reloader(c *crawl.Crawler) func() {
	if j.Reread == nil {
		return nil
	}
	return func() {
		loaded, err := j.Reread()
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
				j.level.Set(terminal.LevelOf(loaded.Config.Log.Level))
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
