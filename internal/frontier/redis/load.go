package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/frontier"
)

type message = rueidis.RedisMessage

// loaded is the answer about one host.
func (s *Store) loaded(h *held, reply []message) (frontier.Answer, error) {
	a := frontier.Answer{Host: h.name, Lease: h.token}
	if len(reply) < 2 {
		return a, fmt.Errorf("redis: load: the reply about %s cannot be read", h.name)
	}
	left := number(reply[0])
	if left < 0 {
		s.counts.stale.Add(1)
		s.loseHost(h)
		return a, nil
	}
	a.Left = int(left)
	for _, m := range list(reply[1]) {
		it, err := s.item(h, text(m))
		if err != nil {
			return a, fmt.Errorf("redis: %s of %s: %w: go on with the program that stored it", root(s.job.name, h.part.index)+"x:"+h.name, s.job.name, err)
		}
		a.Items = append(a.Items, it)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts[h.name] == h { // else it was lost meanwhile, and nobody wants the answer
		for i := range a.Items {
			h.ids[a.Items[i].ID] = struct{}{}
			s.handed[a.Items[i].ID] = h
		}
	}
	return a, nil
}

// item reads what load handed out: the rank, the number in the partition, and the item.
func (s *Store) item(h *held, line string) (frontier.Item, error) {
	rank, rest, ok1 := strings.Cut(line, " ")
	seq, body, ok2 := strings.Cut(rest, " ")
	r, err1 := strconv.ParseInt(rank, 10, 32)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return frontier.Item{}, errItem
	}
	it, err := decode(h.name, body)
	it.Rank, it.ID = int32(r), n*int64(s.job.partitions)+int64(h.part.index)
	return it, err
}
