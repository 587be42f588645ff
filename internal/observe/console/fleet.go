package console

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/treadlight/crawl/internal/observe/console/dashboard"
)

// Fleet is the part of this process in a crawl that several share, and how the whole stands.
type Fleet struct {
	Job    string `json:"job"`
	Worker string `json:"worker"`
	State  string `json:"state"` // one of fleetStates

	Hosts   int   `json:"hosts"`   // that this process has
	Loaded  int   `json:"loaded"`  // URLs that it was handed and are not done
	Pending int64 `json:"pending"` // operations not sent yet

	SilentSeconds float64 `json:"silent_seconds"` // since Redis was heard last
	LeaseSeconds  float64 `json:"lease_seconds"`
	TripSeconds   float64 `json:"trip_seconds"` // the last batch

	Commands int64 `json:"commands"`
	Repeated int64 `json:"repeated"` // commands sent again
	Acquired int64 `json:"acquired"` // hosts
	Given    int64 `json:"given"`    // hosts
	Lost     int64 `json:"lost"`     // hosts
	Dropped  int64 `json:"dropped"`  // URLs for which Redis had no memory
	Full     bool  `json:"full"`     // it has none

	// Of all processes, as of some seconds ago.
	AgeSeconds float64 `json:"age_seconds"`
	Known      int64   `json:"known"`  // URLs
	Done       int64   `json:"done"`   // URLs
	Queued     int64   `json:"queued"` // URLs
	Leased     int64   `json:"leased"` // URLs
	Processes  int     `json:"processes"`
}

// fleetStates are what a process may be about.
var fleetStates = []string{"running", "paused", "draining", "cut_off"}

// fleetRows are of a crawl that several processes share.
func fleetRows() []row {
	f := func(name, help string, kind prometheus.ValueType, value func(f *Fleet) float64) row {
		return row{name: name, help: help, kind: kind, value: func(s *state) float64 { return value(s.Fleet) }}
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []row{
		{
			name: "treadlight_fleet_state", help: "Which of its states the process is in: cut_off has not heard of Redis for so long that it asks for nothing.", kind: gauge, label: "state",
			values: func(s *state) map[string]float64 {
				all := make(map[string]float64, len(fleetStates))
				for _, name := range fleetStates {
					all[name] = truth(name == s.Fleet.State)
				}
				return all
			},
		},
		f("treadlight_fleet_owned_hosts", "Hosts that belong to this process.", gauge, func(f *Fleet) float64 { return float64(f.Hosts) }),
		f("treadlight_fleet_loaded_urls", "URLs that this process was handed and are not done.", gauge, func(f *Fleet) float64 { return float64(f.Loaded) }),
		f("treadlight_fleet_pending_operations", "What this process has to tell Redis and has not sent yet.", gauge, func(f *Fleet) float64 { return float64(f.Pending) }),
		f("treadlight_fleet_silence_seconds", "Time since Redis answered a heartbeat, which it should every third of the lease.", gauge, func(f *Fleet) float64 { return f.SilentSeconds }),
		f("treadlight_fleet_lease_seconds", "Time for which a process that is not heard of keeps its hosts.", gauge, func(f *Fleet) float64 { return f.LeaseSeconds }),
		f("treadlight_fleet_trip_seconds", "What the last batch to Redis took.", gauge, func(f *Fleet) float64 { return f.TripSeconds }),
		f("treadlight_fleet_commands_total", "Commands sent to Redis.", counter, func(f *Fleet) float64 { return float64(f.Commands) }),
		f("treadlight_fleet_repeated_commands_total", "Commands sent to Redis again, as there was no answer.", counter, func(f *Fleet) float64 { return float64(f.Repeated) }),
		f("treadlight_fleet_acquired_hosts_total", "Hosts that this process was given.", counter, func(f *Fleet) float64 { return float64(f.Acquired) }),
		f("treadlight_fleet_given_hosts_total", "Hosts that this process gave back.", counter, func(f *Fleet) float64 { return float64(f.Given) }),
		f("treadlight_fleet_lost_hosts_total", "Hosts that this process lost, as its lease had ended.", counter, func(f *Fleet) float64 { return float64(f.Lost) }),
		f("treadlight_fleet_refused_urls_total", "URLs that were dropped because Redis had no memory for them.", counter, func(f *Fleet) float64 { return float64(f.Dropped) }),
		f("treadlight_fleet_redis_full", "Whether Redis has no memory for new URLs.", gauge, func(f *Fleet) float64 { return truth(f.Full) }),
		f("treadlight_fleet_known_urls_total", "URLs ever accepted, by all processes.", counter, func(f *Fleet) float64 { return float64(f.Known) }),
		f("treadlight_fleet_done_urls_total", "URLs that are done, by all processes.", counter, func(f *Fleet) float64 { return float64(f.Done) }),
		f("treadlight_fleet_queued_urls", "URLs that are not done, of all processes.", gauge, func(f *Fleet) float64 { return float64(f.Queued) }),
		f("treadlight_fleet_leased_urls", "URLs that processes were handed and are not done, of all of them.", gauge, func(f *Fleet) float64 { return float64(f.Leased) }),
		f("treadlight_fleet_processes", "Processes that are heard of.", gauge, func(f *Fleet) float64 { return float64(f.Processes) }),
		f("treadlight_fleet_figures_age_seconds", "How old the figures of all processes are; they are read while somebody looks.", gauge, func(f *Fleet) float64 { return f.AgeSeconds }),
	}
}

// fleetInfo says who this is.
func fleetInfo(f Fleet) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "treadlight_fleet_info", Help: "Always 1; the labels are the names of the shared crawl and of this process.",
		ConstLabels: prometheus.Labels{"fleet": f.Job, "worker": f.Worker},
	})
	info.Set(1)
	return info
}

// sentence is what the pages say of it.
func (f *Fleet) sentence() string {
	if f == nil {
		return ""
	}
	whole := dashboard.Whole
	text := fmt.Sprintf("%s in %s is %s and has %s hosts. All %s processes together: %s URLs queued, %s of them handed out; %s of %s done, as of %.0f s ago.",
		f.Worker, f.Job, strings.ReplaceAll(f.State, "_", " "), whole(int64(f.Hosts)), whole(int64(f.Processes)), whole(f.Queued), whole(f.Leased), whole(f.Done), whole(f.Known), f.AgeSeconds)
	if f.SilentSeconds > f.LeaseSeconds/2 {
		text += fmt.Sprintf(" Redis was last heard %.0f s ago.", f.SilentSeconds)
	}
	if f.Full {
		text += fmt.Sprintf(" Redis has no memory left: %s URLs were dropped.", whole(f.Dropped))
	}
	return text
}
