package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const accessFile = `
access:
  auth: ["a.test=u:hunter2", "*.b.test:8080=bearer hunter2", "c.test=${TOKEN}"]
  proxy: http://me:hunter2@proxy.test:3128
  resolve: ["a.test:443:192.0.2.1,192.0.2.2", "*:80:127.0.0.1"]
  dns_server: 192.0.2.53
  family: ipv4
  cookie_file: cookies.txt
hosts:
  - match: a.test
    headers: ["X-Api-Key: hunter2", "X-Plain: yes"]
    auth: u:hunter2
    proxy: direct
    cert: c.pem
    key: k.pem
  - {match: b.test, headers: "X-One: 1", auth: "${BOTH}", proxy: "socks5://u:hunter2@p"}
  - {match: c.test, max_rps: 2}
`

func TestAccess(t *testing.T) {
	l := mustLoad(t, yamlFile(accessFile))
	require.Equal(t, Access{
		Auth:  []string{"a.test=u:hunter2", "*.b.test:8080=bearer hunter2", "c.test=${TOKEN}"},
		Proxy: "http://me:hunter2@proxy.test:3128", Resolve: []string{"a.test:443:192.0.2.1,192.0.2.2", "*:80:127.0.0.1"},
		DNSServer: "192.0.2.53", CookieFile: "cookies.txt", Family: "ipv4",
	}, l.Config.Access)
	a, b, c := &l.Config.Hosts[0], &l.Config.Hosts[1], &l.Config.Hosts[2]
	require.Equal(t, []string{"X-Api-Key: hunter2", "X-Plain: yes"}, a.Headers)
	require.Equal(t, [4]string{"u:hunter2", "direct", "c.pem", "k.pem"}, [4]string{a.Auth, a.Proxy, a.Cert, a.Key})
	require.Equal(t, []string{"X-One: 1"}, b.Headers)
	require.True(t, a.HasAccess() && b.HasAccess())
	require.False(t, c.HasAccess())
	require.Equal(t, "file crawl.yaml:11", l.Origins["hosts[0].headers[1]"].String())
}

// TestSecretsOfAccessAreHidden wherever a configuration is shown, and kept where it is saved.
func TestSecretsOfAccessAreHidden(t *testing.T) {
	l := mustLoad(t, yamlFile(accessFile))
	var y, j, saved strings.Builder
	require.NoError(t, l.WriteYAML(&y))
	require.NoError(t, l.WriteJSON(&j))
	for _, text := range []string{y.String(), j.String(), l.Config.LogValue().String()} {
		require.NotContains(t, text, "hunter2")
		require.Contains(t, text, "a.test=REDACTED")
		require.Contains(t, text, "c.test=${TOKEN}", "that it is in a variable is no secret")
		require.Contains(t, text, "http://REDACTED@proxy.test:3128")
		require.Contains(t, text, "socks5://REDACTED@p")
		require.Contains(t, text, "X-Plain: yes")
	}
	require.Contains(t, y.String(), `    headers: ["X-Api-Key: REDACTED", "X-Plain: yes"]`)
	require.NoError(t, l.Config.Save(&saved))
	require.Equal(t, l.Config, mustLoad(t, yamlFile(saved.String())).Config)

	// What was printed is no configuration any more, and says so.
	var text strings.Builder
	for _, p := range problems(t, yamlFile(y.String())) {
		text.WriteString(p + "\n")
	}
	for _, path := range []string{"access.auth[0]", "access.auth[1]", "access.proxy", "hosts[0].auth", "hosts[1].proxy"} {
		require.Contains(t, text.String(), path+": ")
	}
	require.NotContains(t, text.String(), "hosts[1].auth")
	for _, c := range Diff(new(Config), &l.Config) {
		require.NotContains(t, c.String(), "hunter2")
	}
}

func TestWrongAccess(t *testing.T) {
	for in, want := range map[string]string{
		"access: {auth: hunter2}":                                 "access.auth[0]: has no host with its credentials",
		"access: {auth: a.test=hunter2}":                          `access.auth[0]: for a.test is neither "user:password" nor`,
		"access: {auth: 'http://a.test=u:hunter2'}":               `access.auth[0]: "http://a.test" is more than a host`,
		"access: {auth: 'A.test=u:hunter2'}":                      `write "a.test"`,
		"access: {auth: 'a.test=u:${hunter2'}":                    "has a ${ without a name",
		"access: {auth: \"a.test=u:hunter2\\x01\"}":               "cannot be printed",
		"access: {proxy: 'ftp://u:hunter2@p'}":                    "access.proxy: is no proxy; write http://",
		"access: {proxy: 'http://${hunter2'}":                     "has a ${ without a name",
		"access: {resolve: a.test}":                               `access.resolve[0]: "a.test" is not complete`,
		"access: {dns_server: dns.test}":                          `access.dns_server: "dns.test" is no name server`,
		"access: {key: k.pem}":                                    "access.key: is the key of a certificate that is missing",
		"access: {cookie_file: '-'}":                              `access.cookie_file: "-" cannot be read back`,
		"hosts: [{match: a.test, key: k.pem}]":                    "hosts[0].key: is the key of a certificate that is missing; give cert as well",
		"hosts: [{match: a.test, auth: hunter2}]":                 "hosts[0].auth: is neither",
		"hosts: [{match: a.test, proxy: env}]":                    "hosts[0].proxy: env is for access.proxy only",
		"hosts: [{match: a.test, proxy: x y}]":                    "hosts[0].proxy: is no proxy",
		"hosts: [{match: a.test, headers: [hunter2]}]":            "hosts[0].headers[0]: has no colon",
		"hosts: [{match: a.test, headers: ['A: 1', 'Host: x']}]":  `hosts[0].headers[1]: "Host" is the crawler's own to set`,
		"hosts: [{match: a.test, headers: {a: b}}]":               "hosts[0].headers: is a group",
		"hosts: [{match: a.test, headers: [[x]]}]":                "hosts[0].headers[0]: is a list; give a text",
		"hosts: [{match: a.test, headers: [\"A: 1\\r\\nB: 2\"]}]": "control characters",
		"hosts: [{match: a.test, header: 'A: 1'}]":                "hosts[0].header: is not a setting; did you mean hosts[0].headers?",
	} {
		_, err := Load(yamlFile(in + "\n"))
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "hunter2", in)
	}
}

func TestSecretHeadersAreToldOf(t *testing.T) {
	l := mustLoad(t, yamlFile("fetch: {headers: ['Authorization: x', 'Accept-Language: en', 'X-Api-Key: y']}\n"))
	require.Contains(t, strings.Join(l.Warnings, "\n"), "fetch.headers: Authorization, X-Api-Key goes only to the hosts that seeds name")
	l = mustLoad(t, yamlFile("fetch: {headers: ['Accept-Language: en']}\naccess: {proxy: 'socks5://p', resolve: 'a.test:80:192.0.2.1'}\n"))
	require.NotContains(t, strings.Join(l.Warnings, "\n"), "fetch.headers")
	require.Contains(t, strings.Join(l.Warnings, "\n"), "access.resolve: a proxy looks names up itself")
}

// TestAccessIsNotLive: what it says was built at the start.
func TestAccessIsNotLive(t *testing.T) {
	was, is := Default(), Default()
	is.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Auth: "u:hunter2"}}
	_, applied, refused, err := Update(&was, &is)
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Equal(t, []string{"hosts: [] → [a.test]"}, lines(refused))
	was.Hosts = []Host{is.Hosts[0]}
	is.Hosts = []Host{{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Auth: "u:hunter3", Headers: []string{"Cookie: hunter2"}}}
	_, applied, refused, err = Update(&was, &is)
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Equal(t, []string{`hosts[0].headers: [] → [Cookie: REDACTED]`, `hosts[0].auth: "REDACTED" → "REDACTED"`}, lines(refused))
}
