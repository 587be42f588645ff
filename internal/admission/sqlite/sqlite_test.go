package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

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

func bucket(name string, capacity int64, perSecond float64) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindTokenBucket, Capacity: capacity, TokensPerSecond: perSecond}
}

func fixed(name string, capacity int64, length time.Duration) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindFixedWindow, Capacity: capacity, Window: length}
}

func sliding(name string, capacity int64, length time.Duration) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindSlidingWindow, Capacity: capacity, Window: length}
}

// take may be called by any goroutine of the test.
func take(t testing.TB, r *sqlite.Repository, key string, n int64, plans ...admission.Plan) admission.Result {
	t.Helper()
	res, err := r.Take(context.Background(), key, plans, n)
	if err != nil {
		t.Errorf("Take(%q, %d) = %v", key, n, err)
	}
	return res
}

func TestConformance(t *testing.T) {
	admissiontest.Run(t, func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
		return open(t, sqlite.Config{Clock: clk})
	}, admissiontest.Options{})
}
