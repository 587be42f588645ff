package console

import (
	"net/http"

	"github.com/treadlight/crawl/internal/admission"
)

// plans is what clients may ask for. A person clicks, a page polls once a second and
// Prometheus scrapes every few: reads have room for a page with ten panels that opens,
// and orders for a person in a hurry.
func plans() []admission.Plan {
	return []admission.Plan{
		{Name: planReads, Capacity: 50, TokensPerSecond: 20},
		{Name: planOrders, Capacity: 10, TokensPerSecond: 1},
		{Name: planLog, Capacity: 20, TokensPerSecond: 1},
	}
}

// rules is for whom. What is no read is an order.
func rules() []admission.Rule {
	return []admission.Rule{
		{Name: planReads, Path: "/**", Methods: []string{http.MethodGet}, Key: clientKey, CostBy: planReads, Plans: []string{planReads}},
		{Name: planOrders, Path: "/**", Key: clientKey, CostBy: planOrders, Plans: []string{planOrders}},
	}
}

// The plans, their rules and the functions of their costs.
const (
	planReads  = "reads"
	planOrders = "orders"
	planLog    = "log" // of refusals
	clientKey  = "client"
)

// costs is what a request with a wrong token costs: two at once and then one in a few
// seconds, at which no secret of 16 bytes is guessed.
const (
	wrongRead  = 25
	wrongOrder = 5
)

// soundClient counts sound requests by their address, apart from all others.
func soundClient() admission.KeyFunc {
	address := admission.ClientIP()
	return func(r *http.Request) (string, error) {
		if verdictOf(r).why != reasonNone || isLogin(r) {
			return "", nil // by the address alone
		}
		return address(r)
	}
}

// costOf is what a request costs, if one with a wrong token costs that much, as one does
// that may have a wrong one in its body.
func costOf(wrong int64) func(*http.Request) int64 {
	return func(r *http.Request) int64 {
		if verdictOf(r).why == reasonToken && !wantsPage(r) || isLogin(r) {
			return wrong
		}
		return 1
	}
}
