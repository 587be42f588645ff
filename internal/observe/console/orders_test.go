package console

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Hosts are blocked and bounded, and the scope is replaced, by what the body says; what is
// missing or wrong is named, changes nothing, and is logged and counted too.
func TestControlOrders(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"hosts/a.test/block", "", 200, `"order":"block","host":"a.test"`},
		{"hosts/a.test:8080/unblock", "{}", 200, `"host":"a.test:8080"`},
		{"hosts/%5B::1%5D:8080/block", "", 200, `"host":"[::1]:8080"`},
		{"hosts/a%20b/block", "", 422, "there is a space in it"},
		{"hosts/a.test/ceiling", `{"max_rps":2.5}`, 200, `"order":"ceiling"`},
		{"hosts/a.test/ceiling", `{"max_rps":0}`, 200, `"order":"ceiling"`},
		{"hosts/a.test/ceiling", "", 422, "the rate is missing"},
		{"hosts/a.test/ceiling", `{"max_rps":"5"}`, 400, "write a JSON object"},
		{"hosts/a.test/ceiling", `{"rps":5}`, 400, "unknown field"},
		{"scope", `{"include":["/blog/"],"exclude":[]}`, 200, `"order":"scope"`},
		{"scope", `{"include":["/blog/"]}`, 422, "both lists are replaced"},
		{"scope", `{"include":null,"exclude":[]}`, 422, "both lists are replaced"},
		{"scope", `{"include":"x","exclude":[]}`, 400, "write a JSON object"},
		{"scope", `{"include":[],"exclude":["` + strings.Repeat("x", maxBody) + `"]}`, 413, "bytes at most"},
		{"hosts/a.test/pause", "", 404, "there are block, unblock, ceiling"},
		{"block", "", 404, "there are pause"},
	} {
		w := g.ask("POST", "/api/"+c.path, c.body, isOrder)
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.path, c.body, w.Body)
		require.Contains(t, w.Body.String(), c.says)
		g.clk.Advance(time.Minute)
	}
	require.Equal(t, []string{
		"block a.test", "unblock a.test:8080", "block [::1]:8080", "ceiling a.test 2.5", "ceiling a.test 0", "scope [/blog/] []",
	}, g.did)
	for _, line := range []string{
		`msg="an order was carried out" order=block who=127.0.0.1:1234 host=a.test`,
		`msg="an order was carried out" order=ceiling who=127.0.0.1:1234 host=a.test max_rps=2.5`,
		`msg="an order was carried out" order=scope who=127.0.0.1:1234 include=/blog/ exclude=""`,
		`msg="an order could not be carried out" order=block who=127.0.0.1:1234 host="a b" error="there is a space in it"`,
	} {
		require.Contains(t, g.log(), line)
	}
	require.Equal(t, "3", g.value(t, `treadlight_console_orders_total{order="ceiling",result="failed"}`))
	require.Equal(t, "2", g.value(t, `treadlight_console_orders_total{order="block",result="done"}`))

	g.over = true
	for _, path := range []string{"hosts/a.test/block", "hosts/a.test/unblock", "hosts/a.test/ceiling", "scope"} {
		w := g.ask("POST", "/api/"+path, `{"max_rps":1,"include":[],"exclude":[]}`, isOrder)
		require.Equal(t, 409, w.Code, path)
		require.Equal(t, ErrGone.Error(), detail(t, w))
	}
}

// What is in force can be read, to be changed.
func TestControls(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	w := g.ask("GET", "/api/controls", "")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"blocked":["b.test"],"ceilings":{"a.test":5},"include":[],"exclude":["/x"]}`, w.Body.String())
}
