package testsite

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// Usage is what became of the capacity of a limited address; it is zero for one without
// limits. The hosts of one address have one Usage, and each of them shows it.
type Usage struct {
	// Limits are the limits and what each allows in the long run; empty if there are none.
	Limits string `json:"limits,omitempty"`
	// Admitted is how many requests passed the limits, whatever became of them then.
	Admitted int64 `json:"admitted"`
	// Possible is how many could have passed between the first and the last request that
	// reached the limits, if the client had known all of them beforehand: bursts and
	// beginnings of windows included. It is a bound, and all of it can be had only of
	// limits that stand alone. Zero if nothing limits how many requests there are.
	Possible float64 `json:"possible"`
	// UsedShare is Admitted as a share of Possible. A queue or a latency that is drawn may
	// bring it a few hundredths above 1. Zero if Possible is.
	UsedShare float64 `json:"used_share"`
	// Slice is the time over which the used share is looked at for the next two: 10s, or
	// that in which 20 requests are allowed, or a window or a burst can be used up, if
	// that is longer.
	Slice time.Duration `json:"slice_ns"`
	// Reached is the time from the first request to the first slice of which at least
	// 90 % of the long-run rate was used; nil if there was none.
	Reached *time.Duration `json:"reached_ns"`
	// Converged is the time from the first request until the used share of every slice is
	// at least 90 %, up to the last whole slice; nil if it never stayed there.
	Converged *time.Duration `json:"converged_ns"`
}

// report fills in what the gate knows.
func (g *gate) report(hr *HostReport) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := &g.used
	hr.Bans = g.jail.bans
	hr.Allowed = g.laws.long(g.day)
	hr.Usage = Usage{
		Limits: g.laws.String(), Admitted: u.admitted, Slice: u.slice,
		Reached: u.since(u.reached), Converged: u.since(u.converged),
	}
	if most := g.laws.most(g.day, u.first, u.last); u.any && !math.IsInf(most, 1) {
		hr.Possible, hr.UsedShare = most, float64(u.admitted)/most
	}
}

// add leaves out times, which have no sum, and those of whom nothing bounds.
func (t *Usage) add(u *Usage) {
	if u.Possible == 0 {
		return
	}
	t.Admitted += u.Admitted
	t.Possible += u.Possible
	t.UsedShare = float64(t.Admitted) / t.Possible
}

// String is the limits in the words of the file.
func (ls laws) String() string {
	words := make([]string, len(ls))
	for i := range ls {
		words[i] = ls[i].name
	}
	return strings.Join(words, ", ")
}

// writeUsage writes the part of the table that is about limits, if there are any.
func (r *Report) writeUsage(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// What is written to a tabwriter before Flush only fills its cells.
	_, _ = fmt.Fprintf(tw, "\nhost\tadmitted\tpossible\tused\trefused/1000\treached\tconverged\tbans\tbanned\t  limits\n")
	rows := 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.Limits == "" {
			continue
		}
		rows++
		_, _ = fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.1f%%\t%.1f\t%s\t%s\t%d\t%d\t  %s\n", h.Name, h.Admitted, h.Possible,
			100*h.UsedShare, h.RefusedPer1000, orNever(h.Reached), orNever(h.Converged), h.Bans, h.Banned, h.Limits)
	}
	if rows == 0 {
		return nil
	}
	t := &r.Total
	_, _ = fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.1f%%\t%.1f\t\t\t%d\t%d\t\n", t.Name, t.Admitted, t.Possible, 100*t.UsedShare, t.RefusedPer1000, t.Bans, t.Banned)
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "possible: what a client that knew the limits could have had admitted in the same time\n"+
		"reached: when 10s were used to 90 % for the first time; converged: from when on all were\n")
	return err
}

func orNever(d *time.Duration) string {
	if d == nil {
		return "never"
	}
	return d.Round(100 * time.Millisecond).String()
}
