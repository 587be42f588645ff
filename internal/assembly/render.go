package assembly

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scripts"
)

// metaRender is the key under which a state keeps what was learned about rendered pages.
const metaRender = "render"

// openRenderer makes the renderer of pages, or returns nil if the settings want none.
func openRenderer(c *Crawler, pc *pipeline.Config) (rendering.Renderer, error) {
	cfg := &c.cfg
	s := &cfg.Render
	if s.Mode == "never" {
		return nil, nil
	}
	open, err := rendering.Renderers.Get()
	if err != nil {
		return nil, err
	}
	rc := rendering.Config{
		Always: s.Mode == "always", Browser: s.Browser, Browsers: s.Browsers, Screenshots: s.Screenshot,
		Press: cfg.Scope.Forms, Agent: cfg.Fetch.Agent(cfg.Version), Timeout: cfg.Fetch.Timeout, MaxHTML: cfg.Fetch.MaxBody,
		Log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
	}
	rc.Cookies = c.id.jar
	if state := c.state; state != nil {
		rc.Learned = state.store.Meta(metaRender)
		rc.Learn = func(text string) { state.store.SetMeta(metaRender, text) }
	}
	if rc.Steps, err = parseEach("render.steps", s.Steps, scripts.ParseStep); err != nil {
		return nil, err
	}
	if s.Screenshot != "" {
		if err := os.MkdirAll(s.Screenshot, 0o755); err != nil {
			return nil, fmt.Errorf("render.screenshot: %w", err)
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
