package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// Budget is an item of [Scope].Budgets in its parts.
type Budget struct {
	Match    *regexp.Regexp // the pattern of the URLs that it is for
	MaxPages int            // how many of them are taken, from 1 to 1,000,000,000
	// PerCrawl has all hosts share them. False: so many of each host.
	PerCrawl bool
}

// What stands behind the number of a budget, after a slash.
const (
	perHost  = "host"
	perCrawl = "crawl"
)

const budgetMax = 1_000_000_000

// ParseBudget reads "N REGEXP" or "N/host REGEXP", which is N URLs of each host, or
// "N/crawl REGEXP", which is N of all hosts together. The error says what to write.
func ParseBudget(s string) (Budget, error) {
	amount, pattern, _ := strings.Cut(s, " ")
	number, per, given := strings.Cut(amount, "/")
	n, err := strconv.Atoi(document.Ungroup(number))
	switch {
	case err != nil || n < 0 || given && per != perHost && per != perCrawl:
		return Budget{}, fmt.Errorf(`%s does not begin with a number of pages; give "N REGEXP" for so many of each host, or "N/%s REGEXP" for so many of all hosts together`,
			document.Quote(s), perCrawl)
	case n == 0:
		return Budget{}, fmt.Errorf("%s leaves nothing; give a number of pages from 1 up, or leave such URLs out with scope.exclude (--exclude)", document.Quote(s))
	case n > budgetMax:
		return Budget{}, fmt.Errorf("%s is more than a crawl can have; give at most %d pages", document.Quote(s), budgetMax)
	}
	pattern = strings.TrimSpace(pattern) // no URL has a space
	if err := expression(pattern); err != nil {
		return Budget{}, err
	}
	re, err := regexp.Compile(pattern)
	return Budget{Match: re, MaxPages: n, PerCrawl: per == perCrawl}, err
}

func budget(s string) error {
	_, err := ParseBudget(s)
	return err
}
