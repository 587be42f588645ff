package render

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/treadlight/crawl/internal/web/scripts"
)

const maxRepeats = 50 // of one step, and of pressed buttons

// step does one step of the user's. Elements that are not there are ignored.
func (v *view) step(s scripts.Step) error {
	switch s.Do {
	case "wait":
		if s.Selector == "" {
			return v.wait(s.Time)
		}
		for waited := time.Duration(0); waited < v.b.r.cfg.Timeout; waited += 4 * tick {
			var there bool
			if err := v.call("find("+quote(s.Selector)+")", &there); err != nil || there {
				return err
			}
			if err := v.wait(4 * tick); err != nil {
				return err
			}
		}
		return nil
	case "click":
		return v.do("click("+quote(s.Selector)+")", 1)
	case "pdf":
		ctx, cancel := context.WithTimeout(v.tab, 2*answerTime)
		defer cancel()
		yes := true
		print, err := chromedp.Call(ctx, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &yes})
		if err != nil {
			return v.why(err)
		}
		v.pictures[".pdf"] = print.Data
		return nil
	case "more":
		return v.do("click("+quote(s.Selector)+")", maxRepeats)
	}
	return v.do("scroll()", maxRepeats)
}

// do repeats a call for as long as it makes the page grow.
func (v *view) do(what string, most int) error {
	for before, n := 0, 0; n < most && !v.late(); n++ {
		var done any
		if err := v.call(what, &done); err != nil || done == false {
			return err
		}
		if err := v.settle(settled, quiet); err != nil {
			return err
		}
		var size int
		if err := v.call("size()", &size); err != nil || size == before {
			return err
		}
		before = size
	}
	return nil
}

// pressAll presses the buttons of the page, and notes the URLs they lead to. The changed page is not read.
func (v *view) pressAll() error {
	v.mu.Lock()
	v.press = true
	v.mu.Unlock()
	const listens = "typeof getEventListeners === 'function' && (e => getEventListeners(e).click)"
	seen := map[string]bool{}
	note := func(first bool) error {
		var links []string
		if err := v.call("links()", &links); err != nil {
			return err
		}
		for _, u := range links {
			if !first && !seen[u] {
				v.note(u)
			}
			seen[u] = true
		}
		return nil
	}
	if err := note(true); err != nil {
		return err
	}
	for n, again := 0, false; n < maxRepeats && !v.late(); n++ {
		var done bool
		ctx, cancel := context.WithTimeout(v.tab, answerTime)
		err := v.evaluate(ctx, 0, fmt.Sprintf("press(%s, %t)", listens, again), &done) // only the page's world shows listeners
		if cancel(); err != nil {
			return err
		}
		if !done {
			if again {
				return nil
			}
			again = true
			continue
		}
		if err := v.settle(settled, quietPress); err != nil {
			return err
		}
		if err := note(false); err != nil {
			return err
		}
	}
	return nil
}
