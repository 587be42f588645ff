package deploy_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var release = flag.Bool("release", false, "build a release of this machine's platform twice, and install its package below a directory")

// A release is the same when built again, its signature holds, its list names every module, and its package installs,
// runs and goes without a trace.
func TestRelease(t *testing.T) {
	if !*release {
		t.Skip("-release builds one, in some minutes")
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
		return string(out)
	}
	dir := t.TempDir()
	at := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", at("key.pem"))
	run("openssl", "ec", "-in", at("key.pem"), "-pubout", "-out", at("public.pem"))
	t.Setenv("SIGNING_KEY", at("key.pem"))
	for _, dist := range []string{"one", "two"} {
		run("sh", "release.sh", at(dist), "linux/"+runtime.GOARCH)
	}
	sums := must(os.ReadFile(at("one", "SHA256SUMS")))
	again := must(os.ReadFile(at("two", "SHA256SUMS")))
	require.Equal(t, string(again), string(sums), "the second build differs")
	require.Len(t, strings.Split(strings.TrimSpace(string(sums)), "\n"), 4, "%s", sums)
	run("sh", "-c", "cd "+at("one")+" && sha256sum -c SHA256SUMS && base64 -d SHA256SUMS.sig >sig && "+
		"openssl dgst -sha256 -verify ../public.pem -signature sig SHA256SUMS")

	packages := must(filepath.Glob(at("one", "*.deb")))
	require.Len(t, packages, 1)
	root := at("root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "info"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var", "lib", "dpkg", "updates"), 0o700))
	for _, name := range []string{"status", "available"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "var", "lib", "dpkg", name), nil, 0o600))
	}
	run("dpkg", "--root="+root, "--force-not-root", "-i", packages[0])
	crawl := filepath.Join(root, "usr", "bin", "crawl")
	require.Contains(t, run(crawl, "doctor"), "open files")
	require.FileExists(t, filepath.Join(root, "usr", "share", "man", "man1", "crawl.1.gz"))
	unit := must(os.ReadFile(filepath.Join(root, "usr", "lib", "systemd", "system", "crawl@.service")))
	require.Contains(t, string(unit), " /usr/bin/crawl ")
	requireListed(t, at("one"), run("go", "version", "-m", crawl))
	run("dpkg", "--root="+root, "--force-not-root", "-P", "treadlight")
	left := must(filepath.Glob(filepath.Join(root, "*", "*")))
	require.Equal(t, []string{filepath.Join(root, "var", "lib")}, left, "purging leaves files")
}

// requireListed holds the list of what is in the binary, and the licences, to what the binary says itself.
func requireListed(t *testing.T, dist, modules string) {
	t.Helper()
	lists := must(filepath.Glob(filepath.Join(dist, "*.cdx.json")))
	require.Len(t, lists, 1)
	var bom struct {
		Components []struct{ Name, Version string }
	}
	text := must(os.ReadFile(lists[0]))
	require.NoError(t, json.Unmarshal(text, &bom))
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+"@"+c.Version] = true
	}
	licences := must(os.ReadFile(filepath.Join(dist, "..", "root", "usr", "share", "doc", "treadlight", "LICENSES-OF-MODULES")))
	n := 0
	for line := range strings.Lines(modules) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			n++
			require.True(t, listed[f[1]+"@"+f[2]], "%s is not in the list", f[1])
			require.Contains(t, string(licences), "==== "+f[1]+" "+f[2]+": ")
		}
	}
	require.Greater(t, n, 50)
}
