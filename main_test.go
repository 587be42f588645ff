package crawl_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/treadlight/crawl/console"
	_ "github.com/treadlight/crawl/redis"
	_ "github.com/treadlight/crawl/sqlite"
	_ "github.com/treadlight/crawl/traces"
)

func TestMain(m *testing.M) {
	if paths := os.Getenv(killedVariable); paths != "" {
		toBeKilled(paths)
		return
	}
	goleak.VerifyTestMain(m)
}
