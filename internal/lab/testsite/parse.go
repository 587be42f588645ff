package testsite

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads a site from YAML or JSON; a file that begins with a brace is JSON. An unknown or repeated field, a value
// of the wrong type or out of range, and a second document are errors. It reports all of them, one per line, with the
// line of the file or the path of the value (hosts[2].limit.rate) and what to write instead. [New] fills in the
// defaults.
func Parse(data []byte) (Config, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // tabs are space in JSON, and an error in YAML
	}
	var cfg Config
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	err := d.Decode(&cfg)
	switch {
	case errors.Is(err, io.EOF):
		return cfg, errors.New("the site file is empty; write at least hosts: [{pages: 20}]")
	case err != nil:
		if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
			err = errors.Join(errors.New(strings.Join(wrong.Errors, "\n")), cfg.validate())
		}
		return Config{}, err
	case !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		return Config{}, errors.New("the site file has a second document; keep one")
	}
	if err := cfg.validate(); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return strings.TrimPrefix(name, "-")
}

// WriteYAML writes cfg as a file that [Parse] reads back as an equal Config.
func WriteYAML(w io.Writer, cfg Config) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(cfg); err != nil {
		return err
	}
	return enc.Close()
}
