package frontier

import (
	"cmp"
	"slices"
)

// naive is a [Store] in maps and slices, to hold others against. It answers when it is
// asked to by answer, and an answer knows of nothing that came after its question.
type naive struct {
	urls    map[int64]*naiveURL
	seen    map[uint64]bool
	dormant []string // hosts, as they came
	answers []Answer
}

type naiveURL struct {
	Item
	host string
	done bool
}

var _ Store = (*naive)(nil)

func newNaive() *naive { return &naive{urls: make(map[int64]*naiveURL), seen: make(map[uint64]bool)} }

func (s *naive) Known(fp uint64) bool { return s.seen[fp] }

func (s *naive) Put(host string, it *Item, fp uint64, dormant bool) {
	s.urls[it.ID] = &naiveURL{Item: *it, host: host}
	s.seen[fp] = true
	if dormant && !slices.Contains(s.dormant, host) {
		s.dormant = append(s.dormant, host)
	}
}

func (s *naive) Spent(it *Item) { s.urls[it.ID].Item = *it }

func (s *naive) Done(id int64, _ Visit) {
	u := s.urls[id]
	if u.done {
		panic("a URL is done twice: " + u.URL.String())
	}
	u.done = true
}

func (s *naive) Load(host string, behind Place, n int) {
	a := Answer{Host: host, Behind: behind}
	for _, u := range s.urls {
		if !u.done && u.host == host && behind.Before(u.Place()) {
			a.Items = append(a.Items, u.Item)
		}
	}
	slices.SortFunc(a.Items, func(x, y Item) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.ID, y.ID))
	})
	if len(a.Items) > n {
		a.Items, a.More = a.Items[:n], true
	}
	s.answers = append(s.answers, a)
}

func (s *naive) Rouse(n int) {
	n = min(n, len(s.dormant))
	var a Answer
	for _, host := range s.dormant[:n] {
		left := HostLeft{Name: host}
		for _, u := range s.urls {
			if u.host == host {
				left.Known++
				if !u.done {
					left.Queued++
				}
			}
		}
		if left.Queued > 0 {
			a.Hosts = append(a.Hosts, left)
		}
	}
	s.dormant = slices.Delete(s.dormant, 0, n)
	a.More = len(s.dormant) > 0
	s.answers = append(s.answers, a)
}

// answer is the oldest answer not yet given; ok is false if there is none.
func (s *naive) answer() (a Answer, ok bool) {
	if len(s.answers) == 0 {
		return a, false
	}
	a = s.answers[0]
	s.answers = s.answers[1:]
	return a, true
}

// reopen has the store behave as after a restart: what was asked is forgotten, and every
// host with URLs left is dormant. It returns what is left.
func (s *naive) reopen() (left Left) {
	s.answers, s.dormant = nil, nil
	for id, u := range s.urls {
		left.Known++
		left.LastID = max(left.LastID, id)
		if u.done {
			continue
		}
		left.Queued++
		if !slices.Contains(s.dormant, u.host) {
			s.dormant = append(s.dormant, u.host)
		}
	}
	slices.Sort(s.dormant)
	return left
}
