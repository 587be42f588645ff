package main

import (
	"fmt"
	"strings"
)

// searching is the time in seconds that a client has to find a limit; what comes after has figures of its own.
const searching = 60

// politeness has a table and a picture for each distance.
func politeness(rows []row) (text string, pictures map[string]string) {
	pictures = map[string]string{}
	for _, rtt := range distinct(rows, "rtt_ms") {
		near := where(rows, "rtt_ms", rtt)
		clients, servers := distinct(near, "client"), distinct(near, "server")
		g := grid{
			title:   fmt.Sprintf("Used and refused after the first minute, %s ms away", rtt),
			subject: "A row per server, a column per client: the upper bar is the used share of the limit, the lower one the refused share of the requests.",
			legend:  "upper bar: used % of the limit, more is better; lower bar: refused % of the requests, less is better",
			columns: clients, rows: servers,
		}
		var lines [][]string
		for _, server := range servers {
			line, cells := []string{server}, [][]bar{}
			for _, client := range clients {
				found := where(near, "server", server, "client", client)
				if len(found) == 0 {
					line, cells = append(line, "–"), append(cells, nil)
					continue
				}
				first, _, _ := share(found[0], 0, searching)
				later, used, refused := share(found[0], searching, 1<<30)
				line = append(line, first+"; "+later)
				cells = append(cells, []bar{{used / 100, fmt.Sprintf("%.0f", used), "good"}, {refused / 100, fmt.Sprintf("%.1f", refused), "bad"}})
			}
			lines, g.cells = append(lines, line), append(g.cells, cells)
		}
		lines = append(lines, append([]string{"**mean**"}, means(near, clients)...))
		name := "bench-politeness-" + rtt
		pictures[name] = g.svg()
		text += fmt.Sprintf("![%s](images/%s.svg)\n\n%s ms away:\n\n%s\n", g.title, name, rtt, markdown(append([]string{"server"}, clients...), lines))
	}
	return text, pictures
}

// means has a figure like those of [share] for each client, over all servers alike.
func means(rows []row, clients []string) (line []string) {
	for _, client := range clients {
		var text []string
		for _, span := range [][2]int{{0, searching}, {searching, 1 << 30}} {
			var used, refused float64
			all := where(rows, "client", client)
			for _, r := range all {
				_, u, f := share(r, span[0], span[1])
				used, refused = used+u/float64(len(all)), refused+f/float64(len(all))
			}
			text = append(text, fmt.Sprintf("%.1f / %.2f", used, refused))
		}
		line = append(line, "**"+strings.Join(text, "; ")+"**")
	}
	return line
}

// share is what a cell used of the limit and how much was refused, in percent, between two seconds.
func share(r row, from, to int) (text string, used, refused float64) {
	a, b := r.sum("admitted", from, to), r.sum("refused", from, to)
	seconds := min(to, len(strings.Fields(r["admitted"]))) - from
	used = 100 * a / (r.number("available") * float64(seconds))
	refused = 100 * b / max(1, a+b)
	return fmt.Sprintf("%.1f / %.2f", used, refused), used, refused
}

// speed has a table for each way of transport, and one picture.
func speed(rows []row) (text string, pictures map[string]string) {
	g := grid{
		title:   "Pages per CPU-second, and memory at the peak",
		subject: "A row per contender, with bars that are scaled to the longest of their column.",
		legend:  "pages per second of processor time, more is better; resident memory at the peak, less is better",
		rows:    distinct(rows, "contender"),
	}
	g.cells = make([][][]bar, len(g.rows))
	for _, way := range distinct(rows, "way") {
		g.columns = append(g.columns, way+": pages per CPU-s", way+": MB")
		mine := where(rows, "way", way)
		var lines [][]string
		var most, heaviest float64
		figures := map[string][2]float64{}
		for _, name := range distinct(mine, "contender") {
			all := where(mine, "contender", name)
			rate := median(all, func(r row) float64 { return r.number("pages") / r.number("cpu_s") })
			peak := median(all, func(r row) float64 { return r.number("peak_mb") })
			wall := median(all, func(r row) float64 {
				ours := where(mine, "contender", "crawl steer", "round", r["round"])
				return r.number("wall_s") / ours[0].number("wall_s")
			})
			figures[name], most, heaviest = [2]float64{rate, peak}, max(most, rate), max(heaviest, peak)
			lines = append(lines, []string{
				name, fmt.Sprintf("%.0f", median(all, func(r row) float64 { return r.number("pages") })),
				fmt.Sprintf("%.0f", median(all, func(r row) float64 { return r.number("requests") })),
				fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", wall), fmt.Sprintf("%.0f", peak), fmt.Sprint(len(all)),
			})
		}
		for i, name := range g.rows {
			f := figures[name]
			g.cells[i] = append(g.cells[i], []bar{{f[0] / most, fmt.Sprintf("%.0f", f[0]), "good"}}, []bar{{f[1] / heaviest, fmt.Sprintf("%.0f", f[1]), "plain"}})
		}
		text += way + ":\n\n" + markdown([]string{"contender", "pages", "requests", "pages per CPU-s", "× time of crawl steer", "peak MB", "rounds"}, lines) + "\n"
	}
	return fmt.Sprintf("![%s](images/bench-speed.svg)\n\n%s", g.title, text), map[string]string{"bench-speed": g.svg()}
}

// resume has what each kill left, the kills of one crawl beside each other.
func resume(rows []row) (text string, pictures map[string]string) {
	var lines [][]string
	for _, name := range distinct(rows, "contender") {
		line := []string{name}
		for _, figure := range []string{"never_fetched", "fetched_again", "lost", "twice"} {
			var cells []string
			for _, kill := range distinct(rows, "kill") {
				cell := "—"
				if r := where(where(rows, "contender", name), "kill", kill); len(r) > 0 {
					cell = fmt.Sprintf("%.0f", r[0].number(figure))
				}
				cells = append(cells, cell)
			}
			line = append(line, strings.Join(cells, " / "))
		}
		lines = append(lines, line)
	}
	return markdown([]string{"contender", "never fetched", "fetched again", "without a record", "records too many"}, lines), nil
}
