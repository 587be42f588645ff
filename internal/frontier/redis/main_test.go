//go:build unix

package redis

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	redistest.StopAll()
	if code == 0 {
		// The client's refresh of a cluster's slots sleeps up to a second before it sees that
		// the client is closed, and ends then.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
