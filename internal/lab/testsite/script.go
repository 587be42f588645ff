package testsite

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Step is a part of a script: Status, so many Times over. In text it is 503, 503*3
// (three times) or 503* (for ever). Status 200 stands for normal service, with the host's
// limit, flakiness and latency.
type Step struct {
	Status int // 200, or 400 to 599; zero is refused
	Times  int // zero means once, -1 for ever
}

// MarshalText writes the short form.
func (s Step) MarshalText() ([]byte, error) {
	switch {
	case s.Times < 0:
		return fmt.Appendf(nil, "%d*", s.Status), nil
	case s.Times > 0:
		return fmt.Appendf(nil, "%d*%d", s.Status, s.Times), nil
	}
	return strconv.AppendInt(nil, int64(s.Status), 10), nil
}

// UnmarshalText reads the short form.
func (s *Step) UnmarshalText(text []byte) error {
	status, times, repeated := strings.Cut(string(text), "*")
	n, err := strconv.Atoi(status)
	out := Step{Status: n}
	if repeated && times == "" {
		out.Times = -1
	} else if repeated && err == nil {
		out.Times, err = strconv.Atoi(times)
	}
	if err != nil || repeated && out.Times == 0 {
		return fmt.Errorf("%q is no step of a script; use one such as 503, 503*3 or 503*", text)
	}
	*s = out
	return nil
}

type script struct {
	steps []Step
	done  int // times of the first step
}

// next is the status scripted for the next page request; 200 once the script is over.
func (s *script) next() int {
	if len(s.steps) == 0 {
		return http.StatusOK
	}
	step := s.steps[0]
	s.done++
	if step.Times >= 0 && s.done >= step.Times {
		s.steps, s.done = s.steps[1:], 0
	}
	return step.Status
}
