package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// TestDocsHaveTheStructsOfPrograms: what programs set is written from the table.
func TestDocsHaveTheStructsOfPrograms(t *testing.T) {
	groups, err := ProgramGroups()
	require.NoError(t, err)
	docpage.File(t, "settings.go", string(groups))
	docpage.Between(t, "options.go", "\t// settings: generated, see `make docs`\n", "\t// end of settings\n", string(ProgramFields()))
}
