package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/scripts"
)

func TestLook(t *testing.T) {
	words := strings.Repeat("Words that people read. ", 50)
	for _, tc := range []struct {
		name, page string
		controls   bool
		want       scripts.Sign
	}{
		{name: "no script", page: `<div id=root></div>`},
		{name: "a root that is empty", page: `<div id=root></div><SCRIPT src=main.js></script>`, want: scripts.Root},
		{name: "a root by the name of its element", page: `<shop-root></shop-root><script type=module src=main.js></script>`, want: scripts.Root},
		{name: "a root that was filled by the server", page: `<div id=root>` + words + `</div><script src=main.js></script>`},
		{name: "braces of a framework", page: `<body ng-app>` + words + `<p>{{ price }}</p><script src=angular.js></script>`, want: scripts.Template},
		{name: "braces of no framework", page: words + `<p>{{ price }}</p><script src=main.js></script>`},
		{name: "an advice", page: strings.Repeat("Word ", 60) + `<noscript>Please enable JavaScript.</noscript><script src=main.js></script>`, want: scripts.Noscript},
		{name: "an advice beside all there is", page: words + `<noscript>Enable JavaScript to comment.</noscript><script src=main.js></script>`},
		{name: "little text", page: `<h1>Loading</h1><script src=main.js></script>`, want: scripts.Bare},
		{name: "little text with links", page: `<a href=1>1</a><a href=2>2</a><a href=3>3</a><script src=main.js></script>`},
		{name: "data is no script", page: `<h1>Loading</h1><script type=application/ld+json>{}</script>`},
		{name: "text of scripts and styles is none", page: `<title>` + words + `</title><style>` + words + `</style><script>/*` + words + `*/</script>`, want: scripts.Bare},
		{name: "a button, unless asked for", page: words + `<button>More</button>`},
		{name: "a button", page: words + `<button>More</button>`, controls: true, want: scripts.Controls},
		{name: "a button of a form", page: words + `<form><button>Send</button></form>`, controls: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, scripts.Look([]byte(tc.page), tc.controls).Sign)
			if !tc.controls {
				require.Equal(t, tc.want != "", scripts.Empty([]byte(tc.page)))
			}
		})
	}
}

// A page that Empty reports has a sign, whatever it is.
func FuzzLook(f *testing.F) {
	for _, page := range []string{"", "<", "<script", "<h1>a</h1><script>", "<body ng-app>{{<script src=a>", "<noscript>javascript<script></noscript><script>"} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		v := scripts.Look(page, false)
		if scripts.Empty(page) {
			assert.NotEmpty(t, v.Sign)
		}
		assert.LessOrEqual(t, v.Text, len(page))
	})
}
