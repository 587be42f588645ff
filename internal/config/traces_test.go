package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The variables that all programs with traces look at count, but less than what is written
// for this one.
func TestStandardVariables(t *testing.T) {
	const at, own = "OTEL_EXPORTER_OTLP_ENDPOINT=http://o.test:4318/", "CRAWL_TRACES_ENDPOINT=http://c.test"
	for name, c := range map[string]struct {
		env  []string
		file string
		want Traces
	}{
		"none":     {want: Traces{Sample: 1}},
		"endpoint": {env: []string{at}, want: Traces{Endpoint: "http://o.test:4318/v1/traces", Sample: 1}},
		"of traces alone": {
			env:  []string{at, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t.test/x"},
			want: Traces{Endpoint: "http://t.test/x", Sample: 1},
		},
		"off":      {env: []string{at, "OTEL_TRACES_EXPORTER=none"}, want: Traces{Sample: 1}},
		"disabled": {env: []string{at, "OTEL_SDK_DISABLED=TRUE"}, want: Traces{Sample: 1}},
		"headers": {
			env:  []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b, X-Two=2"},
			want: Traces{Headers: []string{"api-key: a b", "X-Two: 2"}, Sample: 1},
		},
		"sampler": {env: []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"}, want: Traces{Sample: .25}},
		"no sampler": {
			env: []string{"OTEL_TRACES_SAMPLER=always_off"},
		},
		"own variable": {env: []string{at, own}, want: Traces{Endpoint: "http://c.test", Sample: 1}},
		"file": {
			env: []string{at, "OTEL_EXPORTER_OTLP_HEADERS=a=b"}, file: "traces: {endpoint: 'http://f.test', headers: ['X: y']}",
			want: Traces{Endpoint: "http://f.test", Headers: []string{"X: y"}, Sample: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := Sources{Env: c.env}
			if c.file != "" {
				src.File, src.Reader = "crawl.yaml", strings.NewReader(c.file)
			}
			loaded, err := Load(src)
			require.NoError(t, err)
			got := loaded.Config.Traces
			require.Equal(t, c.want.Endpoint, got.Endpoint)
			require.ElementsMatch(t, c.want.Headers, got.Headers)
			require.InDelta(t, c.want.Sample, got.Sample, 0)
		})
	}
	_, err := Load(Sources{Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318"}})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT")
	require.ErrorContains(t, err, "is no URL of a collector")
	loaded, err := Load(Sources{Env: []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=hush"}})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, loaded.WriteYAML(&b))
	require.NotContains(t, b.String(), "hush")
	require.Contains(t, b.String(), "api-key: REDACTED")
}
