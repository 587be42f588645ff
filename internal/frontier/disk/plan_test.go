package disk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// No statement that is run for each URL or each question looks at a whole table, or sorts.
func TestPlans(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	require.NoError(t, s.Close())
	cfg := s.cfg
	f, err := openFile(s.path, &cfg)
	require.NoError(t, err)
	defer f.db.Close()
	searches := 0
	for _, q := range f.queries() {
		if q.stmt == &f.putPlaced { // of one row
			continue
		}
		require.NoError(t, f.db.Each("EXPLAIN QUERY PLAN "+q.sql, func(s *sqlitedb.Stmt) error {
			plan := s.ColumnText(3)
			require.NotContains(t, plan, "TEMP B-TREE", q.sql)
			if !strings.Contains(plan, "hosts_dormant") { // an index of those that are wanted
				require.NotContains(t, plan, "SCAN", q.sql)
				searches++
			}
			return nil
		}))
	}
	require.Greater(t, searches, 5)
}
