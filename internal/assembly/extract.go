package assembly

import (
	"fmt"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/fields"
)

// tree is what is read out of pages by way of their trees.
func tree(s *Settings) (pipeline.Tree, error) {
	e := &s.Extract
	t := pipeline.Tree{Metadata: e.Metadata, MainText: e.MainText, MaxElements: e.MaxElements}
	rules := make([]fields.Rule, len(e.Fields))
	for i, text := range e.Fields {
		var err error
		if rules[i], err = config.ParseField(text); err != nil {
			return t, fmt.Errorf("extract.fields[%d]: %w", i, err)
		}
	}
	if len(rules) == 0 {
		return t, nil
	}
	var err error
	if t.Fields, err = fields.New(rules); err != nil {
		return t, fmt.Errorf("extract.fields: %w", err)
	}
	return t, nil
}
