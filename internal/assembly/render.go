package assembly

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scripts"
)

// openRenderer makes what renders pages, if the settings want it.
func (c *Crawler) openRenderer(pc *pipeline.Config) error {
	s := &c.cfg.Render
	if s.Mode == "never" {
		return nil
	}
	open, err := pipeline.Renderers.Get()
	if err != nil {
		return err
	}
	rc := pipeline.RenderConfig{
		Always: s.Mode == "always", Browser: s.Browser, Browsers: s.Browsers, Load: s.Load, Screenshots: s.Screenshot, PDFs: s.PDF,
		Press: c.cfg.Scope.Forms, Agent: c.cfg.Fetch.Agent(c.cfg.Version), Timeout: c.cfg.Fetch.Timeout, MaxHTML: c.cfg.Fetch.MaxBody,
		Log: cmp.Or(c.cfg.Log, slog.New(slog.DiscardHandler)),
	}
	rc.Cookies = c.id.jar
	if rc.Steps, err = parseEach("render.steps", s.Steps, scripts.ParseStep); err != nil {
		return err
	}
	for path, dir := range map[string]string{"render.screenshot": s.Screenshot, "render.pdf": s.PDF} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if c.cfg.Robots.Enabled {
		if pc.RenderRobots, err = robots.New(robotsConfig(&c.cfg.Settings)); err != nil {
			return err
		}
	}
	if c.renderer, err = open(rc); err != nil {
		return err
	}
	pc.Renderer = c.renderer
	return nil
}
