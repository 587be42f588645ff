package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// crawlRows are of the crawl as a whole.
func crawlRows() []row {
	return []row{
		gauge("treadlight_crawl_running", "Whether the crawl runs.", func(s *state) float64 { return truth(s.State == pipeline.EndNone && s.ElapsedSeconds > 0) }),
		gauge("treadlight_crawl_paused", "Whether the crawl is paused.", func(s *state) float64 { return truth(s.Paused) }),
		gauge("treadlight_crawl_elapsed_seconds", "Time since the crawl began, until it ended.", func(s *state) float64 { return s.ElapsedSeconds }),
		counter("treadlight_records_total", "Records written.", func(s *state) float64 { return float64(s.Records) }),
		counter("treadlight_pages_total", "Records of pages: those with a 2xx status.", func(s *state) float64 { return float64(s.Pages) }),
		counter("treadlight_record_errors_total", "Records of URLs that failed: no answer, one that cannot be used, or a status of 400 and above.", func(s *state) float64 { return float64(s.Errors) }),
		counters("treadlight_requests_total", "outcome", "Requests made, robots.txt and retries included, by what they told of the host.",
			func(s *state) map[string]int64 { return s.Outcomes }),
		counter("treadlight_answers_total", "Requests that a host answered with a status.", func(s *state) float64 { return float64(s.Answered) }),
		counter("treadlight_retries_total", "Fetches that were to be repeated.", func(s *state) float64 { return float64(s.Retries) }),
		counter("treadlight_refused_single_urls_total", "Refusals that were one URL's alone, as others of its host were served.", func(s *state) float64 { return float64(s.OfURL) }),
		counter("treadlight_returned_leases_total", "URLs that workers gave back unasked, as the situation of their host had changed.", func(s *state) float64 { return float64(s.Returned) }),
		counter("treadlight_robots_refused_urls_total", "URLs that robots.txt refuses.", func(s *state) float64 { return float64(s.Refused) }),
		counter("treadlight_robots_unknown_urls_total", "URLs given up because robots.txt cannot be had.", func(s *state) float64 { return float64(s.Unruled) }),
		counter("treadlight_body_bytes_total", "Bytes of bodies, decoded.", func(s *state) float64 { return float64(s.Bytes) }),
		counter("treadlight_received_bytes_total", "Bytes of bodies, as received.", func(s *state) float64 { return float64(s.WireBytes) }),
		counters("treadlight_out_of_scope_links_total", "reason", "Links that are not followed, by reason.", func(s *state) map[string]int64 { return s.OutOfScope }),
		counters("treadlight_dropped_links_total", "reason", "Links that are left out for want of room or of a budget, or as they lead nowhere, by reason.", func(s *state) map[string]int64 { return s.Dropped }),
		counters("treadlight_suspected_links_total", "reason", "Links that lead nowhere and were followed, as traps are only reported.", func(s *state) map[string]int64 { return s.Suspected }),
		counter("treadlight_trapped_urls_total", "URLs that were accepted and then left, as those like them had nothing new.", func(s *state) float64 { return float64(s.Trapped) }),
		counters("treadlight_repeated_pages_total", "kind", "Pages that repeat others.", repetitions),
		counter("treadlight_noindex_records_total", "Records left out because their pages ask for it.", func(s *state) float64 { return float64(s.Unindexed) }),
		counters("treadlight_compared_records_total", "change", "Records of pages that earlier rounds of the crawl know, by how they differ.",
			func(s *state) map[string]int64 { return s.Changes }),
		gauge("treadlight_crawl_round", "Which round of the crawl this is, from 1.", func(s *state) float64 { return float64(max(s.Round, 1)) }),
		gauge("treadlight_workers", "Goroutines that fetch.", func(s *state) float64 { return float64(s.Workers.Count) }),
		counter("treadlight_worker_busy_seconds_total", "Time that workers have fetched.", func(s *state) float64 { return s.Workers.BusySeconds }),
		counter("treadlight_worker_wait_seconds_total", "Time that workers have waited for permits.", func(s *state) float64 { return s.Workers.WaitSeconds }),
		gauge("treadlight_frontier_queued_urls", "URLs that wait to be visited.", func(s *state) float64 { return float64(s.Frontier.Queued) }),
		gauge("treadlight_frontier_leased_urls", "URLs that are being visited.", func(s *state) float64 { return float64(s.Frontier.Leased) }),
		counter("treadlight_frontier_known_urls_total", "URLs ever accepted.", func(s *state) float64 { return float64(s.Frontier.Known) }),
		gauge("treadlight_frontier_hosts", "Hosts known.", func(s *state) float64 { return float64(s.Frontier.Hosts) }),
	}
}

// repetitions are the pages that repeat others; none if nobody looked for them.
func repetitions(s *state) map[string]int64 {
	if s.Duplicates == nil {
		return nil
	}
	return map[string]int64{neardup.Exact.String(): s.Duplicates.Exact, neardup.Near.String(): s.Duplicates.Near}
}

// limiterRows are of all hosts together.
func limiterRows() []row {
	return []row{
		counter("treadlight_limiter_permits_total", "Permits granted.", func(s *state) float64 { return float64(s.Limiter.Requests) }),
		counter("treadlight_limiter_throttled_permits_total", "Permits granted after a wait for the limiter.", func(s *state) float64 { return float64(s.Limiter.Throttled) }),
		counter("treadlight_limiter_denied_permits_total", "Requests that an open circuit held back.", func(s *state) float64 { return float64(s.Limiter.Denied) }),
		counter("treadlight_limiter_retries_total", "Answers to requests that were tries of a URL after the first.", func(s *state) float64 { return float64(s.Limiter.Retries) }),
		counter("treadlight_limiter_over_released_permits_total", "Permits given back more than once: a mistake in the program.", func(s *state) float64 { return float64(s.Limiter.OverReleased) }),
		counter("treadlight_limiter_evicted_hosts_total", "Hosts whose state was put away.", func(s *state) float64 { return float64(s.Limiter.Evicted) }),
		gauge("treadlight_limiter_hosts", "Hosts that the limiter keeps a state of.", func(s *state) float64 { return float64(s.Limiter.Domains) }),
		counter("treadlight_limiter_surplus_hosts_total", "Hosts taken in beyond 100,000, as all others were being asked.", func(s *state) float64 { return float64(s.Limiter.OverCap) }),
		gauge("treadlight_limiter_put_away_hosts", "Hosts whose state was put away and that are still owed a pause.", func(s *state) float64 { return float64(s.Limiter.Tombstones) }),
		gauge("treadlight_limiter_groups", "Addresses and registrable domains whose hosts are told apart.", func(s *state) float64 { return float64(s.Limiter.Groups) }),
		gauge("treadlight_limiter_merged_groups", "Addresses whose hosts are limited as one.", func(s *state) float64 { return float64(s.Limiter.Merged) }),
		capsLeft(),
		gauge("treadlight_limiter_open_circuits", "Hosts that are not asked because they fail.", func(s *state) float64 { return float64(s.Limiter.Open) }),
		gauge("treadlight_limiter_half_open_circuits", "Hosts that are tried again.", func(s *state) float64 { return float64(s.Limiter.HalfOpen) }),
		gauge("treadlight_limiter_requests_in_flight", "Permits that are out.", func(s *state) float64 { return float64(s.Limiter.InFlight) }),
		gauge("treadlight_limiter_waiting_requests", "Requests that wait for a permit.", func(s *state) float64 { return float64(s.Limiter.Waiting) }),
	}
}

// capsLeft is what is left of the caps of all hosts together, which are of a closed list.
func capsLeft() row {
	return row{
		name: "treadlight_limiter_cap_left", help: "What is left now of a cap of all hosts together: requests, or bytes for global_bytes; below zero is a debt.",
		kind: prometheus.GaugeValue, label: "cap",
		values: func(s *state) map[string]float64 {
			left := make(map[string]float64)
			for _, c := range s.Limiter.Caps {
				left[c.Limit.String()] = float64(c.Left)
			}
			return left
		},
	}
}

// controlRows are of what operators have changed.
func controlRows(crawl *Crawl) []row {
	return []row{
		gauge("treadlight_operator_blocked_hosts", "Hosts of which an operator has nothing asked.", func(*state) float64 { return float64(len(crawl.Controls().Blocked)) }),
		gauge("treadlight_operator_ceilings", "Hosts for which an operator has set a rate.", func(*state) float64 { return float64(len(crawl.Controls().Ceilings)) }),
	}
}

// keptRows are of the state on the disk.
func keptRows(kept func() Kept) []row {
	return []row{
		gauge("treadlight_state_pending_operations", "What the state of the crawl was told and is not on the disk yet.", func(*state) float64 { return float64(kept().Pending) }),
		gauge("treadlight_state_pending_operations_limit", "With so many pending the crawl waits for the disk.", func(*state) float64 { return float64(kept().Limit) }),
		gauge("treadlight_state_queued_urls", "URLs that wait to be visited, as of the last commit.", func(*state) float64 { return float64(kept().Queued) }),
		counter("treadlight_state_visited_urls_total", "URLs that are done with, as of the last commit.", func(*state) float64 { return float64(kept().Done) }),
		gauge("treadlight_state_index_memory_bytes", "Memory that the fingerprints of URLs take.", func(*state) float64 { return float64(kept().IndexMemory) }),
		gauge("treadlight_state_index_disk_bytes", "Room on the disk that the fingerprints of URLs take.", func(*state) float64 { return float64(kept().IndexDisk) }),
		gauge("treadlight_state_failed", "Whether the state cannot be written any more.", func(*state) float64 { return truth(kept().Failed) }),
	}
}
