package assembly

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scripts"
)

// openRenderer makes what renders pages, if the settings want it; else nil.
func openRenderer(cfg *Config, jar cookies.Keeper, pc *pipeline.Config) (pipeline.Renderer, error) {
	s := &cfg.Render
	if s.Mode == "never" {
		return nil, nil
	}
	open, err := pipeline.Renderers.Get()
	if err != nil {
		return nil, err
	}
	rc := pipeline.RenderConfig{
		Always: s.Mode == "always", Browser: s.Browser, Browsers: s.Browsers, Load: s.Load, Screenshots: s.Screenshot, PDFs: s.PDF,
		Press: cfg.Scope.Forms, Agent: cfg.Fetch.Agent(cfg.Version), Timeout: cfg.Fetch.Timeout, MaxHTML: cfg.Fetch.MaxBody,
		Log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
	}
	rc.Cookies = jar
	if rc.Steps, err = parseEach("render.steps", s.Steps, scripts.ParseStep); err != nil {
		return nil, err
	}
	for path, dir := range map[string]string{"render.screenshot": s.Screenshot, "render.pdf": s.PDF} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if cfg.Robots.Enabled {
		if pc.RenderRobots, err = robots.New(robotsConfig(&cfg.Settings)); err != nil {
			return nil, err
		}
	}
	r, err := open(rc)
	pc.Renderer = r
	return r, err
}
