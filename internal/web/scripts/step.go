package scripts

import (
	"fmt"
	"strings"
	"time"

	"github.com/andybalholm/cascadia"
)

// Step is something that is done on a page once it is rendered.
type Step struct {
	Do       string        // click, more, scroll, wait or pdf
	Selector string        // of CSS, for click and more, and for wait unless it has a Time
	Time     time.Duration // for wait
}

// MaxStepTime bounds the time of a wait.
const MaxStepTime = time.Minute

// ParseStep reads click:SELECTOR, more:SELECTOR, scroll, wait:DURATION, wait:SELECTOR or pdf.
func ParseStep(text string) (Step, error) {
	do, what, _ := strings.Cut(strings.TrimSpace(text), ":")
	s := Step{Do: do, Selector: strings.TrimSpace(what)}
	switch do {
	case "scroll", "pdf":
		if s.Selector == "" {
			return s, nil
		}
	case "click", "more", "wait":
		if d, err := time.ParseDuration(s.Selector); err == nil && do == "wait" {
			if d <= 0 || d > MaxStepTime {
				return s, fmt.Errorf("a wait of %v: give one of at most %v", d, MaxStepTime)
			}
			return Step{Do: do, Time: d}, nil
		}
		if _, err := cascadia.ParseGroup(s.Selector); err != nil {
			return s, fmt.Errorf("%q is no CSS selector: %w", s.Selector, err)
		}
		return s, nil
	}
	return s, fmt.Errorf("%q is no step: give click:SELECTOR, more:SELECTOR, scroll, wait:SELECTOR, wait:DURATION or pdf, such as click:#more", text)
}
