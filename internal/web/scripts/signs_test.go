package scripts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSigns(t *testing.T) {
	text := strings.Repeat("words of a page that says something ", 20)
	for page, want := range map[string]Sign{
		`<div id="root"></div><script src=a.js></script>`:                                     Root,
		`<app-root></app-root><script type=module src=a.js></script>`:                         Root,
		`<div id="__next">` + text + `</div><script src=a.js></script>`:                       "", // made by a server
		`<body ng-app><a href=x>{{name}}</a>` + text + `<script src=a.js></script>`:           Template,
		`<noscript>Please enable JavaScript</noscript><p>shop</p><script src=a.js></script>`:  Noscript,
		`<noscript><img src=pixel></noscript>` + text + `<script src=a.js></script>`:          "",
		`<h1>Loading</h1><script>go()</script>`:                                               Bare,
		`<h1>Short</h1>`:                                                                      "",
		`<h1>Short</h1><script type="application/ld+json">{}</script>`:                        "",
		`<p>x</p><a href=1>1</a><a href=2>2</a><a href=3>3</a><script>count()</script>`:       "",
		`<p>` + text + `</p><button>press</button><script>x()</script>`:                       "",
		`<script>` + text + `</script><style>` + text + `</style><title>` + text + `</title>`: Bare,
	} {
		require.Equal(t, want, Look([]byte(page), false).Sign, page)
	}
	pressed := `<p>` + text + `</p><button>press</button><script>x()</script>`
	require.Equal(t, Controls, Look([]byte(pressed), true).Sign)
	require.Empty(t, Look([]byte(`<form>`+pressed[:len(pressed)-24]+`</form>`+text), false).Sign)
}

func TestParseStep(t *testing.T) {
	for text, want := range map[string]string{
		"click:#more": "", "more:.next a": "", "scroll": "", "wait:2s": "", "wait:#list": "",
		"click:": "no CSS selector", "click:[": "no CSS selector", "wait:2h": "at most", "scroll:x": "no step", "type:x": "no step", "": "no step",
	} {
		_, err := ParseStep(text)
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}
