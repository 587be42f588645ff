package docs_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

const module = "github.com/treadlight/crawl"

// room is the part of the code that a package belongs to: a directory of internal, a public
// package, or the root. It is empty for packages of others, and for those without code that
// is shipped.
func room(path string) string {
	rest, ours := strings.CutPrefix(path+"/", module+"/")
	words := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	switch {
	case !ours || words[0] == "docs" || words[0] == "deploy":
		return ""
	case words[0] == "":
		return "crawl"
	case strings.HasPrefix(rest, "resilience/binder/"):
		return "resilience/binder"
	case words[0] == "internal" || words[0] == "cmd":
		return strings.TrimPrefix(strings.Join(words[:2], "/"), "internal/")
	}
	return words[0]
}

// imports are the rooms that each room imports, tests apart.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = docpage.Root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := room(words[0])
		if from == "" || from == "integration" {
			continue
		}
		all[from] = append(all[from], "")
		for _, path := range words[1:] {
			if to := room(path); to != "" && to != from {
				all[from] = append(all[from], to)
			}
		}
	}
	for from, to := range all {
		slices.Sort(to)
		all[from] = slices.Compact(to)[1:] // without the empty one
	}
	return all
}

// reachable are the rooms that a room imports, by way of others too.
func reachable(all map[string][]string, from string) map[string]bool {
	found := map[string]bool{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range all[queue[0]] {
			if !found[to] {
				found[to] = true
				queue = append(queue, to)
			}
		}
	}
	return found
}

// ordered lists rooms so that each stands below those that it imports, but for those that
// import it in turn.
func ordered(all map[string][]string) []string {
	var order []string
	for len(order) < len(all) {
		next, fewest := "", len(all)+1
		for _, name := range slices.Sorted(maps.Keys(all)) {
			missing := 0
			for _, to := range all[name] {
				switch {
				case slices.Contains(order, to):
				case reachable(all, to)[name]:
					missing++
				default:
					missing = len(all) + 1
				}
			}
			if !slices.Contains(order, name) && missing < fewest {
				next, fewest = name, missing
			}
		}
		order = append(order, next)
	}
	return order
}

// ARCHITECTURE.md draws which room imports which, and says of each what it is for.
func TestDocsDrawTheImports(t *testing.T) {
	all := imports(t)
	order := ordered(all)
	widest := 0
	for _, name := range order {
		widest = max(widest, len(name))
	}
	var b strings.Builder
	b.WriteString("```\n")
	edges, upward := 0, []string{}
	for i, name := range order {
		line := fmt.Sprintf("%2d %-*s", i+1, widest, name)
		for j, to := range order {
			mark := " · "
			switch {
			case i == j:
				mark = fmt.Sprintf("%2d ", i+1)
			case slices.Contains(all[name], to):
				edges++
				mark = " ● "
				if j > i {
					mark = " ▲ "
					upward = append(upward, name+" → "+to)
				}
			case j > i:
				mark = "   "
			}
			line += mark
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("```\n\n")
	fmt.Fprintf(&b, "%d rooms, %d imports between them", len(order), edges)
	if len(upward) > 0 {
		fmt.Fprintf(&b, ". In a cycle: %s", strings.Join(upward, ", "))
	}
	b.WriteString(".\n")
	docpage.Check(t, "ARCHITECTURE.md", "imports", b.String())

	text := docpage.Read(t, "ARCHITECTURE.md")
	for _, name := range order {
		require.Regexp(t, "(?m)^\\| .*`(internal/)?"+name+"`.* \\| ", text, "the table of rooms does not say what %s is for", name)
	}
}
