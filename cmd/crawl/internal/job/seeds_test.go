package job

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

func source(r io.Reader) (*seedSource, *bytes.Buffer) {
	var b bytes.Buffer
	return newSeedSource(slog.New(cli.NewLineHandler(&b, slog.LevelDebug, "")), seedFile{"list", r}), &b
}

func collect(s *seedSource) []string {
	var got []string
	for seed := range s.fromFile(context.Background(), nil, func() {}) {
		got = append(got, seed)
	}
	return got
}

// Empty lines and comments are no seeds, and a line that is no URL is logged. In files that were joined, any line may
// begin with a byte order mark.
func TestSeedLines(t *testing.T) {
	tooLong, longest := "http://a.test/"+strings.Repeat("x", 2*maxSeedLine), "http://a.test/"+strings.Repeat("x", 2000)
	for text, c := range map[string]struct {
		want []string
		said []string // in the log, about lines left out
	}{
		"\ufeffa.test\r\n\n# comment\n  http://b.test/ \n" + tooLong + "\nc d\nlast.test": {
			[]string{"a.test", "http://b.test/", "last.test"}, []string{`at=list:5 error="the line is longer than 64 KiB"`, "at=list:6 "},
		},
		"\ufeffa.test\n\ufeff# more\n \ufeff b.test\nf.test\ufeff": {[]string{"a.test", "b.test", "f.test"}, nil},
		longest + "\n" + longest:                                   {[]string{longest, longest}, nil},
	} {
		s, log := source(iotest.OneByteReader(strings.NewReader(text)))
		require.Equal(t, c.want, collect(s))
		require.Equal(t, len(c.want), s.good)
		require.Equal(t, len(c.said), s.bad)
		for _, said := range c.said {
			require.Contains(t, log.String(), said)
		}
		require.NoError(t, s.failed)
	}
}

func TestSeedsThatEndInTrouble(t *testing.T) {
	broken := errors.New("broken")
	s, _ := source(io.MultiReader(strings.NewReader("a.test\nb.te"), iotest.ErrReader(broken)))
	var got []string
	cuts := 0
	for seed := range s.fromFile(t.Context(), nil, func() { cuts++ }) {
		require.Zero(t, cuts, "what could be read comes first")
		got = append(got, seed)
	}
	require.Equal(t, []string{"a.test", "b.te"}, got)
	require.ErrorIs(t, s.failed, broken)
	require.Equal(t, 1, cuts)
}

// A crawl can end while it waits for seeds.
func TestSeedsStop(t *testing.T) {
	for name, end := range map[string]func(*seedSource, context.CancelFunc){
		"stop":    func(s *seedSource, _ context.CancelFunc) { s.stop(); s.stop() },
		"context": func(_ *seedSource, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				s, _ := source(r)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range s.fromFile(ctx, nil, func() {}) {
					}
				}()
				synctest.Wait()
				end(s, cancel)
				<-done
				require.NoError(t, w.Close()) // a process leaves this to its end
			})
		})
	}
}

// A crawl that needs no more seeds leaves the reading goroutine behind.
func TestSeedsLeft(t *testing.T) {
	s, _ := source(strings.NewReader("a.test\nb.test\n"))
	for seed := range s.fromFile(t.Context(), nil, func() {}) {
		require.Equal(t, "a.test", seed)
		break
	}
	<-s.stopped
}

// For any input, each seed is one trimmed line, and no comment.
func FuzzSeeds(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfa.test\r\n#x\n\n b.test"))
	f.Add([]byte("\xff\xfea\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := source(bytes.NewReader(data))
		got := collect(s)
		require.NoError(t, s.failed)
		require.Len(t, got, s.good)
		lines := bytes.Count(data, []byte("\n")) + 1
		require.LessOrEqual(t, s.good+s.bad, lines)
		for _, seed := range got {
			require.Equal(t, strings.TrimSpace(seed), seed)
			require.NotEmpty(t, seed)
			require.NotContains(t, seed, "\n")
			require.NotEqual(t, byte('#'), seed[0])
		}
	})
}
