package crawl_test

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/treadlight/crawl/redis"
	_ "github.com/treadlight/crawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
