package frontiertest

import (
	"cmp"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// Naive is a [Backend] in maps and slices, for comparison with others. It answers when Answer is called, and an answer
// reflects nothing that came after its request. It is not safe for concurrent use.
type Naive struct {
	URLs     map[int64]*NaiveURL
	seen     map[uint64]bool
	inactive []string // inactive hosts, in the order in which they became inactive
	answers  []frontier.Answer
}

// NaiveURL is what a [Naive] keeps of a URL.
type NaiveURL struct {
	frontier.Item
	Host    string
	Done    bool
	Refused bool
	Visit   frontier.Visit // zero until the URL is done
}

var _ Backend = (*Naive)(nil)

// NewNaive returns an empty store.
func NewNaive() *Naive {
	return &Naive{URLs: make(map[int64]*NaiveURL), seen: make(map[uint64]bool)}
}

// Known implements [frontier.Storage].
func (s *Naive) Known(fp uint64) bool { return s.seen[fp] }

// Put implements [frontier.Storage].
func (s *Naive) Put(host string, it *frontier.Item, fp uint64, inactive bool) {
	s.URLs[it.ID] = &NaiveURL{Item: *it, Host: host}
	s.seen[fp] = true
	if inactive && !slices.Contains(s.inactive, host) {
		s.inactive = append(s.inactive, host)
	}
}

// Spent implements [frontier.Storage].
func (s *Naive) Spent(_ string, it *frontier.Item) { s.URLs[it.ID].Item = *it }

// Done implements [frontier.Storage]. It panics if the URL is done already.
func (s *Naive) Done(_ string, it *frontier.Item, v frontier.Visit) {
	u := s.URLs[it.ID]
	if u.Done {
		panic("frontiertest: a URL is done twice: " + u.URL.String())
	}
	u.Done, u.Refused, u.Visit = true, v.Refused, v
}

// Again begins a new round: all URLs are queued again, with what is known of them. Unlike a store on disk it keeps only
// the last visit, whether or not that says anything.
func (s *Naive) Again() frontier.Left {
	for _, u := range s.URLs {
		before := u.Visit
		u.Done, u.Refused, u.Visit = false, false, frontier.Visit{}
		u.Attempt, u.Returns, u.URLFailures, u.Before = 0, 0, 0, &before
	}
	return s.Reopen()
}

// Load implements [frontier.Storage].
func (s *Naive) Load(host string, behind frontier.Place, n int) {
	a := frontier.Answer{Host: host, Behind: behind}
	for _, u := range s.URLs {
		if !u.Done && u.Host == host && behind.Before(u.Place()) {
			a.Items = append(a.Items, u.Item)
		}
	}
	slices.SortFunc(a.Items, func(x, y frontier.Item) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.ID, y.ID))
	})
	if len(a.Items) > n {
		a.Items, a.More = a.Items[:n], true
	}
	s.answers = append(s.answers, a)
}

// Activate implements [frontier.Storage].
func (s *Naive) Activate(n int) {
	n = min(n, len(s.inactive))
	var a frontier.Answer
	for _, host := range s.inactive[:n] {
		left := frontier.HostLeft{Name: host}
		for _, u := range s.URLs {
			if u.Host != host {
				continue
			}
			page := u.Kind == frontier.Page
			left.Queued += count(!u.Done)
			left.Visited += count(page && u.Done && !u.Refused)
			left.Pages += count(page && !u.Refused)
		}
		if left.Queued > 0 {
			a.Hosts = append(a.Hosts, left)
		}
	}
	s.inactive = slices.Delete(s.inactive, 0, n)
	a.More = len(s.inactive) > 0
	s.answers = append(s.answers, a)
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Deactivate implements [frontier.Storage].
func (s *Naive) Deactivate(host string, _ time.Time) {
	if !slices.Contains(s.inactive, host) {
		s.inactive = append(s.inactive, host)
	}
}

// Commit implements [frontier.Storage]. It does nothing: every call is stored as it comes.
func (s *Naive) Commit([]frontier.Position) {}

// Answer implements [Backend].
func (s *Naive) Answer() (a frontier.Answer, ok bool) {
	if len(s.answers) == 0 {
		return a, false
	}
	a = s.answers[0]
	s.answers = s.answers[1:]
	return a, true
}

// Reopen implements [Backend].
func (s *Naive) Reopen() (left frontier.Left) {
	s.answers, s.inactive = nil, nil
	for id, u := range s.URLs {
		left.Known++
		left.LastID = max(left.LastID, id)
		if u.Done {
			continue
		}
		left.Queued++
		if !slices.Contains(s.inactive, u.Host) {
			s.inactive = append(s.inactive, u.Host)
		}
	}
	slices.Sort(s.inactive)
	return left
}
