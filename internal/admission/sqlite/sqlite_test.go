package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

// TestMain is also the main of the processes that tests start.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// open makes a repository that is closed when the test ends, of a file of its own unless
// cfg names one.
func open(t testing.TB, cfg sqlite.Config) *sqlite.Repository {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "limits.db")
	}
	r, err := sqlite.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// shell opens the file as a person with a shell does.
func shell(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// What tests of all repositories ask for, and ask.
var (
	bucket, fixed, sliding = admissiontest.Bucket, admissiontest.Fixed, admissiontest.Sliding
	take                   = admissiontest.Take
)

func TestConformance(t *testing.T) {
	admissiontest.Run(t, func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
		return open(t, sqlite.Config{Clock: clk})
	}, admissiontest.Options{})
}
