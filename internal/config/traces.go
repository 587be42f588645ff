package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/observe/traces"
)

func collector(s string) error {
	if s == "" {
		return nil
	}
	_, err := traces.ParseEndpoint(s)
	return err
}

func redactHeaderValue(s string) string {
	name, _, ok := strings.Cut(s, ":")
	if !ok {
		return redacted
	}
	return name + ": " + redacted
}

// standardEnv takes in what the specification of OpenTelemetry says about the environment of a program. It
// is for all programs alike, so that what is written for this one is stronger, a file included.
func (l *loader) standardEnv(environ []string) {
	vars := make(map[string]string)
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "OTEL_") {
			vars[name] = strings.TrimSpace(value)
		}
	}
	if strings.EqualFold(vars["OTEL_SDK_DISABLED"], "true") || vars["OTEL_TRACES_EXPORTER"] == "none" {
		return
	}
	if at := vars["OTEL_EXPORTER_OTLP_ENDPOINT"]; at != "" {
		l.standard("traces.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSuffix(at, "/")+"/v1/traces")
	}
	if at := vars["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]; at != "" { // goes as it is
		l.standard("traces.endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", at)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if list := vars[name]; list != "" {
			l.standard("traces.headers", name, strings.Join(baggage(list), "\n"))
			break
		}
	}
	switch vars["OTEL_TRACES_SAMPLER"] {
	case "always_off", "parentbased_always_off":
		l.standard("traces.sample", "OTEL_TRACES_SAMPLER", "0")
	case "traceidratio", "parentbased_traceidratio":
		if share := vars["OTEL_TRACES_SAMPLER_ARG"]; share != "" {
			l.standard("traces.sample", "OTEL_TRACES_SAMPLER_ARG", share)
		}
	}
}

func (l *loader) standard(path, name, value string) {
	row := find(l.rows, path)
	if l.origins[path].Source == fromFile || slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Path == path }) {
		return
	}
	if row.kind == kindList && l.origins[document.Item(path, 0)].Source == fromFile {
		return
	}
	l.storeEnv(row, value, Origin{Source: fromEnv, Name: name})
}

// baggage reads a list of headers as that specification writes them, name=value by comma with
// values escaped as in URLs.
func baggage(list string) (headers []string) {
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if name != "" {
			headers = append(headers, strings.TrimSpace(name)+": "+strings.TrimSpace(value))
		}
	}
	return headers
}
