package redistest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Cluster starts three masters, each with a third of the slots, and a replica of the
// first; more are arguments of all.
func (p Program) Cluster(t testing.TB, more ...string) (masters []*Server, replica *Server) {
	t.Helper()
	args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"}
	args = append(args, more...)
	for range 3 {
		masters = append(masters, p.Start(t, args...))
	}
	replica = p.Start(t, args...)
	const slots = 16384
	for i, s := range masters {
		s.Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/3), strconv.Itoa((i+1)*slots/3-1))
	}
	for _, s := range append(slices.Clone(masters[1:]), replica) {
		host, port, err := net.SplitHostPort(s.Addr)
		require.NoError(t, err)
		masters[0].Do(t, "CLUSTER", "MEET", host, port)
	}
	for _, s := range append(slices.Clone(masters), replica) {
		Eventually(t, s, []string{"CLUSTER", "INFO"}, "cluster_known_nodes:4")
	}
	id, err := masters[0].Do(t, "CLUSTER", "MYID").ToString()
	require.NoError(t, err)
	replica.Do(t, "CLUSTER", "REPLICATE", id)
	Eventually(t, replica, []string{"INFO", "replication"}, "master_link_status:up")
	for _, s := range append(slices.Clone(masters), replica) {
		Eventually(t, s, []string{"CLUSTER", "INFO"}, "cluster_state:ok")
		Eventually(t, s, []string{"CLUSTER", "NODES"}, "slave "+id)
	}
	return masters, replica
}

// Eventually waits until the reply to a command contains want.
func Eventually(t testing.TB, s *Server, args []string, want string) {
	t.Helper()
	var reply string
	c := Client(t, s.Addr)
	defer c.Close()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error // of a server that is not ready yet, perhaps
		if reply, err = c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToString(); strings.Contains(reply, want) {
			return
		}
		if err != nil {
			reply = err.Error()
		}
	}
	t.Fatalf("%v of %s never has %q:\n%s", args, s.Addr, want, reply)
}
