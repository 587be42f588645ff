package warc

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

func numbered(n int) *record.Record {
	return answered(fmt.Sprintf("http://a.test/%d", n), strings.Repeat(fmt.Sprint(n%7), 10+n%7*40))
}

func numberedURLs(n int) (all []string) {
	for i := range n {
		all = append(all, numbered(i).URL)
	}
	return all
}

// A series, or a single file, compressed or not, is written, cut short at any instant, and gone on with from a position
// that was told of before that, again and again. At the end every exchange is there once, in order, and each file is
// whole and what its index says.
func TestResumeAtAnyInstant(t *testing.T) {
	for seed := range uint64(48) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			path, answers, spoil := filepath.Join(dir, []string{"archive", "one.warc", "archive", "one.warc.gz"}[seed%4]), answersIn, damage
			cfg := Config{MaxSize: int64(1500 + rnd.IntN(20000)), Remember: rnd.IntN(9) - 1, Existing: sink.Resume, Host: "h"}
			if cfg.Single = seed%2 == 1; cfg.Single {
				answers, spoil = answersInFile, damageEnd
			}
			const total = 40
			var mark record.Position // what the state of the crawl has
			for mark.Records < total {
				cfg.Position, cfg.Records = mark.Bytes, mark.Records
				w := open(t, path, cfg)
				require.Equal(t, mark, at(w, mark), "it goes on where it was")
				require.Equal(t, numberedURLs(int(mark.Records)), answers(t, path))
				mark = writeSome(t, w, rnd, total)
				if rnd.IntN(4) == 0 {
					require.NoError(t, w.Close())
				} else {
					require.NoError(t, w.abandon())
					spoil(t, w, rnd)
				}
			}
			cfg.Position, cfg.Records = mark.Bytes, mark.Records
			require.NoError(t, open(t, path, cfg).Close())
			require.Equal(t, numberedURLs(total), answers(t, path))
			if cfg.Single {
				require.Len(t, names(t, dir), 1, "nothing is beside it")
				return
			}
			for _, name := range names(t, path) {
				require.NotContains(t, name, openEnding)
			}
		})
	}
}

// answersInFile is the URLs of the answers in an archive, every record of which must be whole.
func answersInFile(t *testing.T, path string) (urls []string) {
	t.Helper()
	for _, r := range requireRecords(t, path) {
		if kind := r.Get("WARC-Type"); kind == typeResponse || kind == typeRevisit {
			urls = append(urls, r.Get("WARC-Target-URI"))
		}
	}
	return urls
}

// What is in the place of a single file is not lost to a mistake.
func TestSingleRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "named.warc.gz")
	w := open(t, path, Config{Single: true})
	require.NoError(t, w.Write(numbered(0)))
	require.NoError(t, w.Close())
	size := w.Mark().Bytes
	for name, tc := range map[string]struct {
		path string
		cfg  Config
		want string
	}{
		"there":           {path, Config{}, "exists and is not empty: add --overwrite"},
		"shorter":         {path, Config{Existing: sink.Resume, Position: size + 1}, "but the crawl to resume had written"},
		"within a record": {path, Config{Existing: sink.Resume, Position: size - 1}, "no record ends at byte"},
		"gone":            {filepath.Join(dir, "other.warc"), Config{Existing: sink.Resume, Position: size}, "is not the archive to whose byte"},
		"a directory":     {dir, Config{Existing: sink.Overwrite}, "is not a regular file"},
		"nowhere":         {filepath.Join(dir, "none", "a.warc"), Config{}, "no such file or directory"},
	} {
		tc.cfg.Single = true
		_, err := Open(tc.path, tc.cfg)
		require.ErrorContains(t, err, tc.want, name)
		require.Equal(t, numberedURLs(1), answersInFile(t, path), name)
		require.Equal(t, []string{"named.warc.gz"}, names(t, dir), name)
	}
	w = open(t, path, Config{Single: true, Existing: sink.Append})
	require.NoError(t, w.Write(numbered(1)))
	require.NoError(t, w.Close())
	require.Equal(t, numberedURLs(2), answersInFile(t, path))
	require.NoError(t, open(t, path, Config{Single: true, Existing: sink.Overwrite}).Close())
	require.Equal(t, "i", kinds(requireRecords(t, path)), "one of a crawl that got nothing says whose it is")
}

// at is the mark of w, whose path is that of the first mark.
func at(w *Writer, first record.Position) record.Position {
	p := w.Mark()
	p.Path, p.Format = first.Path, first.Format
	return p
}

// writeSome writes from where w is, and returns a mark that it had on the way.
func writeSome(t *testing.T, w *Writer, rnd *rand.Rand, total int) record.Position {
	t.Helper()
	marks := []record.Position{w.Mark()}
	for i := w.Mark().Records; i < int64(total) && rnd.IntN(25) > 0; i++ {
		require.NoError(t, w.Write(numbered(int(i))))
		if rnd.IntN(3) == 0 {
			require.NoError(t, w.Flush())
		}
		marks = append(marks, w.Mark())
	}
	if rnd.IntN(4) == 0 {
		require.NoError(t, w.Flush())
	}
	marks = append(marks, w.Mark())
	return marks[len(marks)-1-rnd.IntN(min(len(marks), 12))]
}

// abandon leaves the files as a kill does.
func (w *Writer) abandon() error {
	w.err = errClosed
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// damage does to the files what a kill may have been in the middle of.
func damage(t *testing.T, w *Writer, rnd *rand.Rand) {
	t.Helper()
	if w.now == nil {
		return
	}
	switch rnd.IntN(4) {
	case 0:
		damageEnd(t, w, rnd)
	case 1: // an index, but not the name
		require.NoError(t, writeIndex(w.now.index(w.dir), w.lines))
	case 2: // part of an index
		require.NoError(t, os.WriteFile(w.now.index(w.dir), []byte("com,exa"), 0o600))
	}
}

// damageEnd leaves a part of an exchange at the end of the file.
func damageEnd(t *testing.T, w *Writer, rnd *rand.Rand) {
	t.Helper()
	if w.now == nil {
		return
	}
	f := must(os.OpenFile(w.now.path(w.dir), os.O_APPEND|os.O_WRONLY, 0))
	must(f.Write(w.buf.Bytes()[:rnd.IntN(w.buf.Len()+1)]))
	require.NoError(t, f.Close())
}

// series writes ten files of an exchange each, and returns a position in the middle of one.
func series(t *testing.T, dir string) (marks []record.Position) {
	t.Helper()
	w := open(t, dir, Config{MaxSize: 1})
	for i := range 10 {
		require.NoError(t, w.Write(numbered(i)))
		require.NoError(t, w.Flush())
		marks = append(marks, w.Mark())
	}
	require.NoError(t, w.Close())
	return marks
}

func TestResumeNamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"too short":   {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 900)) }, "has 900 bytes, but the crawl to resume had written"},
		"not there":   {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "put the files back as they were"},
		"not ours":    {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("x"), 0o600)) }, "put the files back as they were"},
		"was changed": {func(t *testing.T, path string) { flip(t, path, 1000) }, "was changed, or no record ends at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			marks := series(t, dir)
			files := must(list(dir, DefaultPrefix))
			tc.spoil(t, files[4].path(dir))
			before := names(t, dir)
			_, err := Open(dir, Config{Existing: sink.Resume, Position: marks[4].Bytes})
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, before, names(t, dir), "nothing is removed before it is known that the crawl can go on")
		})
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f := must(os.OpenFile(path, os.O_RDWR, 0))
	defer func() { require.NoError(t, f.Close()) }()
	var b [1]byte
	must(f.ReadAt(b[:], at))
	must(f.WriteAt([]byte{^b[0]}, at))
}

// Whoever takes complete files away does not stop the crawl from going on; from the beginning all is written anew; and
// within a record nothing may be gone on with.
func TestResumeWithoutEarlierFiles(t *testing.T) {
	dir := t.TempDir()
	marks := series(t, dir)
	_, err := Open(dir, Config{Existing: sink.Resume, Position: marks[3].Bytes - 7})
	require.ErrorContains(t, err, "no record ends at byte")
	files := must(list(dir, DefaultPrefix))
	for _, f := range files[:6] {
		require.NoError(t, f.remove(dir))
	}
	w := open(t, dir, Config{Existing: sink.Resume, Position: marks[7].Bytes, Records: 8})
	require.NoError(t, w.Write(numbered(8)))
	require.NoError(t, w.Close())
	require.Equal(t, []string{"http://a.test/6", "http://a.test/7", "http://a.test/8"}, answersIn(t, dir))
	require.EqualValues(t, 9, w.Mark().Records)

	w = open(t, dir, Config{Existing: sink.Resume})
	require.Empty(t, names(t, dir))
	require.NoError(t, w.Write(numbered(0)))
	require.NoError(t, w.Close())
	require.Equal(t, numberedURLs(1), answersIn(t, dir))
}

// goOn writes records, is killed, and goes on with others.
func goOn(t *testing.T, dir string, cfg Config, first, rest []*record.Record) {
	t.Helper()
	w := open(t, dir, cfg)
	writeAll(t, w, first...)
	require.NoError(t, w.Flush())
	mark := w.Mark()
	require.NoError(t, w.abandon())
	cfg.Existing, cfg.Position, cfg.Records = sink.Resume, mark.Bytes, mark.Records
	w = open(t, dir, cfg)
	writeAll(t, w, rest...)
	require.NoError(t, w.Close())
}

// A resumed Writer knows the payloads of the file that it goes on with; half an answer is nobody's whole, by the index
// either.
func TestResumeKnowsPayloads(t *testing.T) {
	dir := t.TempDir()
	empty, cut := answered("http://a.test/empty", ""), answered("http://a.test/cut", "half")
	cut.Exchange.Truncated = "length"
	goOn(t, dir, Config{}, []*record.Record{answered("http://a.test/1", "one"), empty, cut},
		[]*record.Record{answered("http://a.test/2", "one"), answered("http://a.test/3", ""), answered("http://a.test/4", "half")})
	all := requireRecords(t, filepath.Join(dir, names(t, dir)[1]))
	require.Equal(t, "iRqmRqmRqmVqmRqmRqm", kinds(all))
	require.Equal(t, all[0].Get("WARC-Record-ID"), all[12].Get("WARC-Warcinfo-ID"), "it is the same file")
	require.Equal(t, all[1].Get("WARC-Record-ID"), all[10].Get("WARC-Refers-To"))

	dir = t.TempDir()
	goOn(t, dir, Config{MaxSize: 1}, []*record.Record{cut, answered("http://a.test/other", "other")}, []*record.Record{answered("http://a.test/whole", "half")})
	files := must(list(dir, DefaultPrefix))
	require.Equal(t, typeResponse, requireRecords(t, files[len(files)-1].path(dir))[1].Get("WARC-Type"))
}

// storedApart stores each body in a file of its own, of which the last is left open. It returns the responses by URL.
func storedApart(t *testing.T, dir string, cfg Config, bodies []string) (mark record.Position, files []*file, firsts map[string]readRecord) {
	t.Helper()
	w := open(t, dir, cfg)
	for i, body := range bodies {
		r := answered("http://a.test/"+body, body)
		r.FetchedAt = noon.Add(time.Duration(i) * 1234 * time.Millisecond)
		require.NoError(t, w.Write(r))
		require.NoError(t, w.Flush())
	}
	mark = w.Mark()
	require.NoError(t, w.abandon())
	files = must(list(dir, DefaultPrefix))
	require.Len(t, files, len(bodies))
	firsts = map[string]readRecord{}
	for _, f := range files {
		r := requireRecords(t, f.path(dir))[1]
		firsts[r.Get("WARC-Target-URI")] = r
	}
	return mark, files, firsts
}

// A resumed Writer knows the payloads of all its files that are there, up to the bound, and refers to them as the run
// did that wrote them.
func TestResumeKnowsPayloadsOfEarlierFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		remember int
		change   func(t *testing.T, dir string, first *file)
		want     string // of bodies d to a once more: R is stored, V refers
	}{
		"all":              {0, nil, "VVVV"},
		"the last two":     {2, nil, "VVRR"},
		"none":             {-1, nil, "RRRR"},
		"one moved away":   {0, func(t *testing.T, dir string, f *file) { require.NoError(t, f.remove(dir)) }, "VVVR"},
		"one without data": {0, func(t *testing.T, dir string, f *file) { require.NoError(t, os.Remove(f.path(dir))) }, "VVVR"},
		"one damaged": {0, func(t *testing.T, dir string, f *file) {
			require.NoError(t, os.WriteFile(f.path(dir), []byte("this is no archive, but something else"), 0o600))
		}, "VVVR"},
		"an odd index": {0, func(t *testing.T, dir string, f *file) {
			text := must(os.ReadFile(f.index(dir)))
			odd := "\n{\nx {\"digest\":\"A\"}\n" + strings.ReplaceAll(string(text), `"offset":"`, `"offset":"-`) + strings.ReplaceAll(string(text), `"offset":"`, `"offset":"9`)
			require.NoError(t, os.WriteFile(f.index(dir), []byte(odd), 0o600))
		}, "VVVR"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bodies := []string{"a", "b", "c", "d"}
			cfg := Config{MaxSize: 1, Remember: tc.remember}
			mark, files, firsts := storedApart(t, dir, cfg, bodies)
			if tc.change != nil {
				tc.change(t, dir, files[0])
			}

			cfg.Existing, cfg.Position, cfg.Records = sink.Resume, mark.Bytes, mark.Records
			w := open(t, dir, cfg)
			for _, body := range slices.Backward(bodies) {
				require.NoError(t, w.Write(answered("http://b.test/"+body, body)))
			}
			require.NoError(t, w.Close())
			files = must(list(dir, DefaultPrefix))
			var got string
			for _, f := range files[len(files)-len(bodies):] {
				r := requireRecords(t, f.path(dir))[1]
				if r.Get("WARC-Type") == typeResponse {
					got += "R"
					continue
				}
				got += "V"
				first := firsts[r.Get("WARC-Refers-To-Target-URI")]
				require.Equal(t, first.Get("WARC-Payload-Digest"), r.Get("WARC-Payload-Digest"))
				require.Equal(t, first.Get("WARC-Record-ID"), r.Get("WARC-Refers-To"))
				require.Equal(t, first.Get("WARC-Date"), r.Get("WARC-Refers-To-Date"))
			}
			require.Equal(t, tc.want, got)
		})
	}
}
