package crawl_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms are the packages of internal, and the public ones that are rooms themselves, from left to
// right: code imports rooms to the left of its own and no other. Those in one line stand side by
// side and do not import each other. binder is resilience/binder.
var rooms = [][]string{
	{"clock", "backend", "lazy"},
	{"store", "document"},
	{"record"},
	{"ratelimit"},
	{"resilience"},
	{"fetch"},
	{"transport"},
	{"binder"},
	{"admission"},
	{"web"},
	{"frontier", "records"},
	{"pipeline"},
	{"observe", "render"},
	{"config"},
	{"assembly"},
}

const module = "github.com/treadlight/crawl"

var (
	// labUsers are the verbs that show what the lab has.
	labUsers = regexp.MustCompile(`^cmd/crawl/(.*/)?(demo|simulate|testsite)`)
	// testCode are the files of tests, and packages of suites and fakes.
	testCode = regexp.MustCompile(`_test\.go$|test/[^/]*$|^internal/lab/`)
	// forTests are libraries that production code has no use for.
	forTests = regexp.MustCompile(`^(github\.com/stretchr/testify|pgregory\.net/rapid)(/|$)`)
	// faces are the packages that have a program link what a room needs, beside the root.
	faces = regexp.MustCompile(`^(admit|sqlite|redis|console|traces|maintext|browser)(/|$)`)
)

// level is where the room of a path stands; -1: it is in none.
func level(path string) (at int, room string) {
	room, ok := strings.CutPrefix(path, "internal/")
	room, _, _ = strings.Cut(room, "/")
	switch {
	case strings.HasPrefix(path+"/", "resilience/binder/"):
		room = "binder"
	case strings.HasPrefix(path+"/", "limit/"):
		room = "ratelimit" // its limiters, which the engine is built on
	case room == "resilience" || room == "transport" || room == "record":
	case !ok:
		return -1, ""
	}
	return slices.IndexFunc(rooms, func(side []string) bool { return slices.Contains(side, room) }), room
}

// misplaced says why a file must not import a path; empty: it may. Paths of this module have no
// prefix, and its root is ".".
func misplaced(file, path string) string {
	from, own := level(file)
	to, other := level(path)
	internal := from >= 0 && !testCode.MatchString(file) || strings.HasPrefix(file, "internal/") && own != "integration"
	switch {
	case path == "cmd/crawl" || strings.HasPrefix(path, "cmd/"):
		if !strings.HasPrefix(file, "cmd/") {
			return "the command stands outermost"
		}
	case internal && (path == "." || faces.MatchString(path)):
		return "it is a public name for a room"
	case testCode.MatchString(file):
	case forTests.MatchString(path):
		return "only tests and benchmarks use it"
	case other == "lab" && !labUsers.MatchString(file):
		return "the lab is for tests, and for the verbs demo, testsite and simulate"
	case from >= 0 && to >= from && own != other:
		return other + " does not stand to the left of " + own
	}
	return ""
}

// Each file of the module keeps the order of the rooms.
func TestImportsKeepTheOrderOfTheRooms(t *testing.T) {
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "bench" || file == "examples" || d.Name() == "testdata" || file != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir // modules of their own, and no code
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		if at, room := level(file); at < 0 && strings.HasPrefix(file, "internal/") && room != "lab" && room != "integration" {
			t.Errorf("%s: the room %s has no place in the order", file, room)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if path == module {
				path = "."
			}
			if why := misplaced(filepath.ToSlash(file), strings.TrimPrefix(path, module+"/")); why != "" {
				t.Errorf("%s imports %s: %s", file, path, why)
			}
		}
		return nil
	}))
}

// The rules find what they are for.
func TestMisplacedImportsAreFound(t *testing.T) {
	for _, tc := range []struct {
		file, path string
		bad        bool
	}{
		{"internal/ratelimit/feed.go", "internal/admission", true},
		{"internal/admission/redis/shared.go", "internal/ratelimit", false},
		{"internal/frontier/disk/store.go", "internal/records/sink", true},
		{"internal/records/sink/sink.go", "internal/frontier", true},
		{"internal/frontier/disk/store.go", "internal/frontier/seen", false},
		{"internal/frontier/disk/check_test.go", "internal/records/sink", false},
		{"internal/pipeline/config.go", "internal/observe/telemetry", true},
		{"internal/clock/clock.go", "internal/lab/fetchtest", true},
		{"internal/clock/clock_test.go", ".", true},
		{"internal/fetch/client.go", "transport", true},
		{"transport/client.go", "internal/fetch/reach", false},
		{"transport/client.go", "resilience/binder", true},
		{"internal/config/policies.go", "resilience/binder", false},
		{"transport/client.go", "internal/web", true},
		{"resilience/retry.go", ".", true},
		{"internal/integration/crawl_test.go", ".", false},
		{"cmd/crawl/demo.go", "internal/lab/testsite", false},
		{"cmd/crawl/resume.go", "internal/lab/testsite", true},
		{"crawl.go", "cmd/crawl", true},
		{"internal/web/dom/dom.go", "pgregory.net/rapid", true},
		{"internal/web/dom/dom_test.go", "pgregory.net/rapid", false},
	} {
		require.Equal(t, tc.bad, misplaced(tc.file, tc.path) != "", "%s imports %s", tc.file, tc.path)
	}
}
