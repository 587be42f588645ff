package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// awayPatience is for how long a node of a cluster is waited for that may be away.
const awayPatience = 3 * time.Second

// unserved reports whether an error is that a master of a cluster is away.
func (f *Fleet) unserved(err error) bool {
	return f.client.Mode() == rueidis.ClientModeCluster && heals(err)
}

// explain adds to an error that a master of a cluster is away, and which.
func (f *Fleet) explain(ctx context.Context, err error) error {
	if !f.unserved(err) {
		return err
	}
	masters := f.away(ctx)
	if len(masters) == 0 {
		return err
	}
	return fmt.Errorf("%w: of the cluster %s away, without which the job cannot be read: a replica takes the place of a master after its cluster-node-timeout; where there is none, begin it again",
		err, wereAway(masters))
}

func wereAway(masters []string) string {
	if len(masters) == 1 {
		return "the master " + masters[0] + " is"
	}
	return "the masters " + strings.Join(masters, ", ") + " are"
}

// away are the masters of a cluster that have slots and do not answer, or that others have given
// up. None, if nobody is there who could tell.
func (f *Fleet) away(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, awayPatience)
	defer cancel()
	silent, nodes := make(map[string]bool), ""
	for addr, node := range f.client.Nodes() {
		text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
		if silent[addr] = err != nil; err == nil {
			nodes = text
		}
	}
	return awayOf(nodes, silent)
}

// awayOf reads what a node says of all of its cluster: of each its id, address, flags, master,
// two times, an epoch, the state of the link to it, and its slots.
func awayOf(nodes string, silent map[string]bool) (masters []string) {
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) < 9 {
			continue // no slot is its own
		}
		addr, _, _ := strings.Cut(words[1], "@")
		if strings.Contains(words[2], "master") && (silent[addr] || strings.Contains(words[2], "fail")) {
			masters = append(masters, addr)
		}
	}
	slices.Sort(masters)
	return masters
}
