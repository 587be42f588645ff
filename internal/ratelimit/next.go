package ratelimit

import (
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/steer"
)

func init() {
	control.Trial = append(control.Trial, control.Info{Name: "next", Help: "steer's successor", Learns: true, New: steer.New})
}
