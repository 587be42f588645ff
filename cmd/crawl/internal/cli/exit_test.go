package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const top = "../../../../"

// Each constant has a row, in order, and each row says how the service treats it.
func TestEveryCodeIsInTheList(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	require.NoError(t, err)
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") && len(spec.Values) == 1 {
			if _, number := spec.Values[0].(*ast.BasicLit); number {
				constants++
			}
		}
		return true
	})
	require.Len(t, Codes, constants, "a constant is not in the list, or a row has none")
	last := -1
	for _, c := range Codes {
		require.Greater(t, c.Code, last, "in order and none twice")
		last = c.Code
		require.NotZero(t, c.Service, "%d: what does the systemd unit make of it?", c.Code)
		require.NotEmpty(t, c.Meaning)
	}
}

// The systemd unit treats each code as the list says.
func TestUnitKnowsEveryCode(t *testing.T) {
	data, err := os.ReadFile(top + "deploy/systemd/crawl@.service")
	require.NoError(t, err)
	unit := string(data)
	var success, failure, round []string
	for _, c := range Codes {
		text := fmt.Sprint(c.Code)
		switch {
		case c.Service == Success && c.Code != CodeDone: // systemd knows zero itself
			success = append(success, text)
		case c.Service == Failure:
			failure = append(failure, text)
		}
		if c.Round {
			round = append(round, text)
		}
	}
	for _, want := range []string{
		"\nSuccessExitStatus=" + strings.Join(success, " ") + "\n",
		"\nRestartPreventExitStatus=" + strings.Join(failure, " ") + "\n",
		`case "$$EXIT_STATUS" in ` + strings.Join(round, "|") + `) touch round.done`,
	} {
		require.True(t, strings.Contains(unit, want), "deploy/systemd/crawl@.service does not have %q", want)
	}
}

// A script ends with each code that a command can end with.
func TestScriptsEndWithEveryCode(t *testing.T) {
	files, err := filepath.Glob(top + "testdata/script/*.txtar")
	require.NoError(t, err)
	var scripts strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		scripts.Write(data)
	}
	for _, c := range Codes {
		if c.Code != CodeInternal { // no command ends with it
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^(exits %d |finish \S+ %d$)`, c.Code, c.Code))
			require.True(t, line.MatchString(scripts.String()), "no script of testdata/script ends with %d", c.Code)
		}
	}
}
