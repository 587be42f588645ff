package disk

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const dirVariable = "FRONTIER_DISK_TEST_DIR"

// perBatch is how many URLs each batch of a process puts. It finishes one.
const perBatch = 3

// processConfig makes everything happen often.
var processConfig = Config{linger: time.Millisecond, walBytes: 200_000, memtableFPs: 64, maxPending: 200, unplaced: 50, key: testKey}

func play(role string) int {
	s, err := Open(os.Getenv(dirVariable), processConfig)
	if err == nil {
		switch role {
		case "write":
			err = writeForever(s)
		case "full":
			err = writeUntilFull(s)
		}
	}
	if err != nil {
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	return 0
}

func processURL(id int64) canonical.URL {
	u, err := canonical.Parse(fmt.Sprintf("http://%d.test/%d", id%10, id))
	if err != nil {
		panic(err)
	}
	return u
}

// writeBatch writes the b-th batch, with a question in the middle of some.
func writeBatch(s *Store, b int64) {
	for i := range int64(perBatch) {
		id := (b-1)*perBatch + i + 1
		u := processURL(id)
		s.Put(u.Host(), &frontier.Item{URL: u, ID: id, Queued: time.UnixMilli(id)}, u.Fingerprint(s.Key()), false)
		if b%7 == i {
			s.Load(u.Host(), frontier.Place{}, 2)
		}
	}
	u := processURL(b)
	s.Done(u.Host(), &frontier.Item{URL: u, ID: b}, frontier.Visit{At: time.UnixMilli(b), Status: 200})
	s.SetMeta("batch", strconv.FormatInt(b, 10))
	s.Commit([]frontier.Position{{Path: "out.jsonl", Format: "jsonl", Bytes: 100 * b, Records: b}})
	if b%7 < perBatch {
		select {
		case <-s.Answers():
		case <-s.Failed():
			return
		}
	}
	for !s.Ready() && s.Err() == nil {
		select {
		case <-s.Room():
		case <-s.Failed():
		}
	}
}

// writeForever says of some batches that they are committed, after they are.
func writeForever(s *Store) error {
	b, _ := strconv.ParseInt(s.Meta("batch"), 10, 64)
	for {
		b++
		writeBatch(s, b)
		if b%10 == 0 {
			if err := s.Flush(context.Background()); err != nil {
				return err
			}
			fmt.Println("committed", b)
		}
	}
}

type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func start(t *testing.T, role, dir string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{cmd, bufio.NewScanner(out)}
}

// told is the last batch of which the process said that it is committed.
func (p *process) told(t *testing.T, lines int) (batch int64) {
	t.Helper()
	for ; lines != 0 && p.out.Scan(); lines-- {
		text, ok := strings.CutPrefix(p.out.Text(), "committed ")
		require.True(t, ok, p.out.Text())
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil { // a last line may be cut off
			batch = n
		}
	}
	return batch
}

// wantWholeBatches finds the state to be that after some batch, to the last row.
func wantWholeBatches(t *testing.T, dir string) (batch int64) {
	t.Helper()
	s := openState(t, dir, processConfig)
	batch, _ = strconv.ParseInt(s.Meta("batch"), 10, 64)
	require.Equal(t, frontier.Left{Queued: (perBatch - 1) * batch, Known: perBatch * batch, LastID: perBatch * batch}, s.Left())
	if batch > 0 {
		require.Equal(t, []frontier.Position{{Path: "out.jsonl", Format: "jsonl", Bytes: 100 * batch, Records: batch}}, s.Positions())
	}
	require.EqualValues(t, batch, ask(t, s, `SELECT count(*) FROM visits`))
	require.EqualValues(t, batch*(batch+1)/2, ask(t, s, `SELECT total(url) FROM visits`))
	require.EqualValues(t, perBatch*batch, ask(t, s, `SELECT total(known) FROM hosts`))
	for id := int64(1); id <= perBatch*(batch+1); id++ {
		require.Equal(t, id <= perBatch*batch, s.Known(processURL(id).Fingerprint(testKey)), "URL %d", id)
	}
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	verdict, err := db.QueryText(`PRAGMA integrity_check`)
	require.NoError(t, err)
	require.Equal(t, "ok", verdict)
	require.NoError(t, db.Close())
	require.NoError(t, s.Close())
	return batch
}

// A process that is killed at any instant leaves whole batches, and of those that it was
// told are committed, all. The next one goes on from there, and its lock is no obstacle.
func TestKill(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 5
	}
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	var last int64
	for range kills {
		p := start(t, "write", dir)
		told := p.told(t, 1+rnd.IntN(5))
		time.Sleep(time.Duration(rnd.IntN(5000)) * time.Microsecond) // any time is right
		require.NoError(t, p.cmd.Process.Kill())
		told = max(told, p.told(t, -1))
		require.Error(t, p.cmd.Wait())
		batch := wantWholeBatches(t, dir)
		require.GreaterOrEqual(t, batch, told, "a batch is lost that was committed")
		require.Greater(t, batch, last)
		last = batch
	}
	t.Logf("%d batches", last)
}

// While a process is alive another one is refused, by its number.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "write", dir)
	p.told(t, 1)
	_, err := Open(dir, processConfig)
	var inUse *sqlitedb.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, p.cmd.Process.Pid, inUse.PID)
	require.NoError(t, p.cmd.Process.Kill())
	p.told(t, -1)
	require.Error(t, p.cmd.Wait())
	wantWholeBatches(t, dir)
}
