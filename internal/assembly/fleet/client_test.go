package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

// Whatever characters a secret has, it is taken as it is, from a variable or a file, and no
// error nor what is printed of the settings has it.
func TestRedisClient(t *testing.T) {
	const secret = "p@ss/w#1 %+:?"
	env := func(name string) (string, bool) {
		return map[string]string{"PW": secret, "URL": "redis://u:x@h.test:1"}[name], name != "NONE"
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	o, err := Client(&config.Fleet{Redis: "rediss://me:${PW}@r.test:6380/2"}, env)
	require.NoError(t, err)
	require.Equal(t, []any{"me", secret, []string{"r.test:6380"}, 2, "r.test"}, []any{o.Username, o.Password, o.InitAddress, o.SelectDB, o.TLSConfig.ServerName})
	o, err = Client(&config.Fleet{Redis: "${URL}"}, env)
	require.NoError(t, err)
	require.Equal(t, "x", o.Password)
	o, err = Client(&config.Fleet{Redis: "rediss://me@s.test?master_set=m&addr=t.test&sentinel_password=${URL}", PasswordFile: file("pw", secret+"\n")}, env)
	require.NoError(t, err)
	require.Equal(t, []any{secret, "m", "redis://u:x@h.test:1"}, []any{o.Password, o.Sentinel.MasterSet, o.Sentinel.Password})
	require.Empty(t, o.TLSConfig.ServerName+o.Sentinel.TLSConfig.ServerName, "each server is held to its own name")

	for want, f := range map[string]config.Fleet{
		"takes the variable NONE, which is not set":  {Redis: "redis://:${NONE}@h.test"},
		"is not one line with a password":            {Redis: "redis://h.test", PasswordFile: file("two", secret+"\n"+secret)},
		"fleet.password_file: open ":                 {Redis: "redis://h.test", PasswordFile: filepath.Join(dir, "gone")},
		"is larger than 4 KiB: is it the right file": {Redis: "redis://h.test", PasswordFile: file("large", strings.Repeat("x", 5000))},
		"has no certificate: give a PEM file":        {Redis: "rediss://h.test", CAFile: file("pem", secret)},
		"let it begin with rediss://":                {Redis: "redis://:${PW}@h.test", CAFile: file("pem", secret)},
	} {
		_, err := Client(&f, env)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), secret)
	}
}
