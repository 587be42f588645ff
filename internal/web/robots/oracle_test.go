package robots_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/temoto/robotstxt"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/robots"
)

// drawnRule is a line of a drawn file, with the names that it is for.
type drawnRule struct {
	agents []string
	allow  bool
	path   string
}

// drawFile draws a robots.txt of everything that both parsers read, and tells its rules.
func drawFile(rnd *rand.Rand) (text string, rules []drawnRule) {
	var b strings.Builder
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	end := pick("\n", "\r\n")
	noise := func() {
		b.WriteString(pick("", "", "", "# Disallow: /"+end, "Sitemap: https://a.test/s.xml"+end, "Unknown: /a"+end, end))
	}
	for range 1 + rnd.IntN(4) {
		var agents []string
		for range 1 + rnd.IntN(2) {
			agent := pick("alpha", "beta", "gamma", "*")
			agents = append(agents, agent)
			fmt.Fprintf(&b, "%s:%s%s%s", pick("User-agent", "user-agent", "USER-AGENT"), pick("", " ", "\t "), pick(agent, strings.ToUpper(agent)), end)
			noise()
		}
		for range 1 + rnd.IntN(4) {
			r := drawnRule{agents: agents, allow: rnd.IntN(2) == 0, path: drawPath(rnd, "*", "/*") + pick("", "", "", "$")}
			rules = append(rules, r)
			key := map[bool]string{true: "Allow", false: "Disallow"}[r.allow]
			fmt.Fprintf(&b, "%s:%s%s%s", pick(key, strings.ToLower(key)), pick("", " "), r.path, pick("", " ", " # why")+end)
			noise()
		}
		if rnd.IntN(4) == 0 {
			b.WriteString("Disallow:" + end) // which says nothing
		}
	}
	return b.String(), rules
}

// drawPath is a path of a few segments, with what else may be in one. It begins with what is nowhere else in it,
// since the other parser looks for rules with a wildcard anywhere.
func drawPath(rnd *rand.Rand, special ...string) string {
	alphabet := append([]string{"/a", "/b", "/", "a", "b", ".x", "?", "q=1", "-"}, special...)
	path := "/~"
	for range rnd.IntN(5) {
		path += alphabet[rnd.IntN(len(alphabet))]
	}
	return path
}

// TestConformsWithAnotherParser asks temoto/robotstxt beside ours: on its own it is asked whether a rule is for a
// path. Which of those that are decides is in RFC 9309 section 2.2.2, the one with the most octets, and of equals
// Allow; where the other parser decides otherwise, that is counted, and must have one of the reasons below.
func TestConformsWithAnotherParser(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9309, 1))
	result := conformance.Result{Differs: map[string]int{}}
	matches := map[[2]string]bool{} // of the other parser
	match := func(rule, path string) bool {
		key := [2]string{rule, path}
		if _, ok := matches[key]; !ok {
			theirs, err := robotstxt.FromString("User-agent: *\nDisallow: " + rule + "\n")
			require.NoError(t, err)
			matches[key] = !theirs.TestAgent(path, "x")
		}
		return matches[key]
	}
	for range 4000 {
		text, rules := drawFile(rnd)
		ours := robots.Parse([]byte(text))
		theirs, err := robotstxt.FromString(text)
		require.NoError(t, err, text)
		for _, agent := range []string{"alpha", "beta", "delta"} {
			binding := rulesFor(rules, agent)
			path := drawPath(rnd)
			var best *drawnRule
			wild, tie := false, false
			for i := range binding {
				r := &binding[i]
				if !match(r.path, path) {
					continue
				}
				wild = wild || strings.ContainsAny(r.path, "*$")
				switch {
				case best == nil || len(r.path) > len(best.path):
					best, tie = r, false
				case len(r.path) == len(best.path) && r.allow != best.allow:
					tie = true
					if r.allow {
						best = r
					}
				}
			}
			want := best == nil || best.allow
			v := ours.Agent(agent).Check(path)
			require.Equal(t, want, v.Allowed, "%s asks for %s: %s\n%s", agent, path, v.Reason, text)
			result.Cases++
			switch other := theirs.TestAgent(path, agent); {
			case other == want:
				result.Passed++
			case tie:
				result.Differs["of two rules of one length Allow decides by RFC 9309 section 2.2.2; the other parser takes the first"]++
			case wild:
				result.Differs["the most octets of the rule decide by RFC 9309 section 2.2.2; the other parser counts those of the regular expression that it has made of it"]++
			default:
				t.Fatalf("%s asks for %s: %v, and %v to the other parser, for no reason that is known:\n%s", agent, path, want, other, text)
			}
		}
	}
	conformance.Report(t, "robots-other", result)
}

// rulesFor are the rules that bind an agent: of all groups with its name, or else with a star.
func rulesFor(rules []drawnRule, agent string) (binding []drawnRule) {
	for _, name := range []string{agent, "*"} {
		for _, r := range rules {
			if slices.Contains(r.agents, name) {
				binding = append(binding, r)
			}
		}
		if binding != nil {
			break
		}
	}
	return binding
}
