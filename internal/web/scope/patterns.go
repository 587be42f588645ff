package scope

import (
	"fmt"
	"regexp"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// patterns are the Include and Exclude in force.
type patterns struct {
	include, exclude []*regexp.Regexp
}

func newPatterns(include, exclude []string) (*patterns, error) {
	in, err := compile("Include", include)
	if err != nil {
		return nil, err
	}
	out, err := compile("Exclude", exclude)
	if err != nil {
		return nil, err
	}
	return &patterns{include: in, exclude: out}, nil
}

func compile(field string, patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] %q is no regular expression: %w: escape what is meant literally with \\", field, i, p, err)
		}
		if p == "" {
			return nil, fmt.Errorf("%s[%d] is empty, which matches everything: remove it", field, i)
		}
		out[i] = re
	}
	return out, nil
}

// check decides on a URL in the area of the seeds, by Include only if include is set.
func (p *patterns) check(u canonical.URL, include bool) (code Code, by *regexp.Regexp) {
	if re := firstMatch(p.exclude, u.String()); re != nil {
		return Excluded, re
	}
	if include && len(p.include) > 0 && firstMatch(p.include, u.String()) == nil {
		return NotIncluded, nil
	}
	return In, nil
}

func firstMatch(patterns []*regexp.Regexp, s string) *regexp.Regexp {
	for _, re := range patterns {
		if re.MatchString(s) {
			return re
		}
	}
	return nil
}

// SetPatterns replaces Include and Exclude for all later checks. The error names the invalid
// pattern, and changes nothing.
func (s *Scope) SetPatterns(include, exclude []string) error {
	p, err := newPatterns(include, exclude)
	if err != nil {
		return err
	}
	s.patterns.Store(p)
	return nil
}

// Patterns are the Include and Exclude in force.
func (s *Scope) Patterns() (include, exclude []string) {
	p := s.patterns.Load()
	return texts(p.include), texts(p.exclude)
}

func texts(patterns []*regexp.Regexp) []string {
	out := make([]string, len(patterns))
	for i, re := range patterns {
		out[i] = re.String()
	}
	return out
}

// Recheck decides by the present patterns on what is about to be fetched: a seed, which was not
// checked before, or a URL that was in scope by earlier patterns. exempt (seeds and sitemaps)
// leaves Include out.
func (s *Scope) Recheck(u canonical.URL, exempt bool) Decision {
	v := Decision{scope: s, url: u}
	v.Code, v.by = s.patterns.Load().check(u, !exempt)
	v.In = v.Code == In
	return v
}
