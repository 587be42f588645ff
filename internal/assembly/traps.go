package assembly

import (
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/trap"
)

// nearBits is in how many of 64 bits the fingerprints of near pages differ at most.
const nearBits = 3

// findTraps has the pipeline tell URLs that lead nowhere, and pages that repeat others.
func findTraps(s *Settings, pc *pipeline.Config) (err error) {
	if t := &s.Traps; t.Enabled || t.Report {
		// Of the settings zero is no bound, or no wait; of the package it is the default.
		bound := func(n int) int {
			if n == 0 {
				return -1
			}
			return n
		}
		pc.Traps.Report = t.Report
		pc.Traps.Judge, err = trap.New(trap.Config{
			MaxURLLength: bound(t.MaxURLLength), MaxDepth: bound(t.MaxDepth), MaxRepeats: bound(t.MaxRepeats),
			MaxStale: bound(t.MaxStale), MaxFar: bound(t.MaxFar), After: bound(t.After), Key: pc.Key,
		})
		if err != nil {
			return err
		}
	}
	if s.Duplicates.Find == "off" {
		return nil
	}
	ic := neardup.IndexConfig{MaxPages: s.Duplicates.MaxPages}
	if s.Duplicates.Find == "near" {
		ic.Bits = nearBits
	}
	pc.Duplicates, err = neardup.NewIndex(ic)
	return err
}
