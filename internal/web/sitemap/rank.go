package sitemap

import (
	"math"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

const (
	// early is how many sitemaps of a host are read before its pages; most sites have no more. The others wait until no
	// page is queued, so that the first page of a site with thousands of sitemaps does not wait for hours.
	early = 16
	// priorityRanks is how many ranks lie between the priorities 0 and 1.
	priorityRanks = 1000
)

// Rank returns the rank of the nth sitemap of a host, counted from 0, that is level indexes below the first. It is lower
// than the rank of any page for early sitemaps, and higher for the others.
func Rank(n, level int) int32 {
	if n < early {
		return math.MinInt32 + int32(level)
	}
	return math.MaxInt32 - int32(level)
}

// Level returns the level of a [Rank].
func Level(rank int32) int {
	if rank < 0 {
		return int(int64(rank) - math.MinInt32)
	}
	return math.MaxInt32 - int(rank)
}

// PageRank returns the rank for a priority, used if the user has set no order. URLs above the default priority come
// before all that were found by links, those below it come after.
func PageRank(priority float32) int32 {
	return int32((DefaultPriority - priority) * priorityRanks)
}

// LeadsToPage reports whether a redirect of a sitemap more likely leads to a page: many sites redirect URLs that they
// do not have to their home page. Guessed says that nothing but its usual place says that there is a sitemap.
func LeadsToPage(from, to canonical.URL, guessed bool) bool {
	path, query, _ := strings.Cut(to.Path(), "?")
	if path == "/" && query == "" {
		return true
	}
	return guessed && to.Path() != from.Path() && !slices.Contains([]string{".xml", ".gz", ".txt"}, strings.ToLower(pathpkg.Ext(path)))
}

// Record returns the summary as records have it.
func (s *Summary) Record() *record.Sitemap {
	return &record.Sitemap{
		Format: s.Format.String(), URLs: s.URLs, Sitemaps: s.Sitemaps, Extras: s.Alternates + s.Resources,
		Dropped: s.Dropped, Problems: s.Problems, Problem: s.Problem, LastModified: s.LastMod,
	}
}
