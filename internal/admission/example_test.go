package admission_test

import (
	"context"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

// Two plans are charged together: when the second denies, the first is left as it was.
func ExampleAdmitter_Allow() {
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{
		{Name: "burst", Capacity: 10, TokensPerSecond: 1},
		{Name: "hourly", Kind: admission.KindSlidingWindow, Capacity: 2, Window: time.Hour},
	}, []admission.Rule{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	repository, err := memory.New(memory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer repository.Close()
	admitter, err := admission.New(admission.Config{Repository: repository, Rules: rules})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		r, err := admitter.Allow(context.Background(), "user:ann", []string{"burst", "hourly"}, 1)
		fmt.Println(r.Allowed, r.Plan, r.Remaining, r.Reason, err)
	}
	// Output:
	// true hourly 1  <nil>
	// true hourly 0  <nil>
	// false hourly 0 LIMITED <nil>
}
