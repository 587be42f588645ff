package job

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
)

// startWatch ends the process when it is interrupted, or the time of the crawl is over, before the
// crawl runs. What a start waits for cannot be: a large state that is opened on a slow disk, a
// round that begins, a Redis that does not answer. Nothing is fetched by then, and a state is left
// as by a kill, which it survives.
type startWatch struct {
	began   time.Time
	maxTime chan time.Duration // once it is known
	quit    chan struct{}
	ended   chan struct{}
}

// begin begins to watch over the start of a crawl; zero: its time has no bound that is known yet.
func (j *Job) begin(maxTime time.Duration) {
	s := &startWatch{began: time.Now(), maxTime: make(chan time.Duration, 2), quit: make(chan struct{}), ended: make(chan struct{})}
	s.maxTime <- maxTime
	j.starting = s
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	log, state := j.log, ""
	if j.Resumed {
		state = j.dir
	}
	go func() {
		defer close(s.ended)
		defer signal.Stop(signals)
		var over <-chan time.Time
		for {
			select {
			case <-s.quit:
				return
			case d := <-s.maxTime:
				if over = nil; d > 0 {
					over = time.After(d - time.Since(s.began))
				}
			case <-over:
				giveUp(log, exit.CodeLimit, "--max-time is over before the crawl has begun", state)
			case <-signals:
				giveUp(log, exit.CodeInterrupted, "interrupted before the crawl has begun", state)
			}
		}
	}()
}

// end ends the watch; there may be none. From then on others must listen.
func (s *startWatch) end() {
	if s == nil {
		return
	}
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
	<-s.ended
}

// giveUp ends the process, with a word about it if that can be said.
func giveUp(log *slog.Logger, code int, why, state string) {
	say, quiet := sayBeside()
	say(func() {
		if state != "" {
			log = log.With(slog.String("go_on", "crawl resume "+shellWord(state)))
		}
		log.Warn(why) //nolint:sloglint // one of two constants
	})
	quiet()
	os.Exit(code)
}
