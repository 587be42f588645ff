package mediatype

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The name and content of a file, and what the server says, decide its type.
func TestOfBody(t *testing.T) {
	const html, text, xml, png = "<!DOCTYPE html><p>x", "words", "<?xml version='1.0'?><x/>", "\x89PNG\r\n\x1a\n"
	for _, c := range []struct{ said, ext, body, want, append string }{
		{"text/html", "", html, "text/html", ".html"},
		{"text/html", ".HTM", html, "text/html", ""},
		{"text/html", ".php", html, "text/html", ".html"},
		{"", "", html, "text/html", ".html"},
		{"", ".css", text, "text/css", ""},
		{"", ".svg", xml, "image/svg+xml", ""},
		{"", ".html", text, "text/plain", ".txt"},
		{"", "", "", "text/plain", ".txt"},
		{"unknown/unknown", ".x", png, "image/png", ".png"},
		{"text/html", "", png, "image/png", ".png"},
		{"text/html", ".zip", "PK\x03\x04", "application/zip", ""},
		{"text/html", "", text, "text/html", ".html"},
		{"application/octet-stream", "", html, "application/octet-stream", ".bin"},
		{"application/octet-stream", "", text, "application/octet-stream", ".bin"},
		{"application/octet-stream", ".php", html, "application/octet-stream", ""},
		{"binary/octet-stream", ".dat", html, "binary/octet-stream", ""},
		{"binary/octet-stream", "", html, "binary/octet-stream", ".bin"},
		{"application/octet-stream", ".html", html, "text/html", ""},
		{"application/octet-stream", ".png", png, "image/png", ""},
		{"text/plain", ".c", text, "text/plain", ""},
		{"text/plain", ".svg", xml, "text/plain", ".txt"},
		{"application/x-javascript", ".mjs", text, "application/x-javascript", ""},
		{"application/x-unheard-of", ".x", text, "application/x-unheard-of", ""},
	} {
		got := OfBody(c.said, c.ext, []byte(c.body))
		assert.Equal(t, c.want, got, "%+v", c)
		assert.Equal(t, c.append, Extension(got, c.ext), "%+v", c)
	}
}

func TestNames(t *testing.T) {
	assert.Equal(t, "text/javascript", Usual("application/javascript"))
	assert.Equal(t, "x/y", Usual("x/y"))
	assert.Equal(t, "image/jpeg", OfExtension(".JPE", ""))
	assert.Equal(t, "x", OfExtension(".unheard", "x"))
	assert.Contains(t, Names("image/jpg"), "image/jpeg")
	assert.Equal(t, []string{"x/y"}, Names("x/y"))
	for name, ft := range byName { // aliases have the same extension
		assert.Equal(t, ft.extensions[0], Extension(name, ""), name)
	}
}

func TestPatterns(t *testing.T) {
	by := map[string]int{"text/html": 1, "text/*": 2, "*/*": 3}
	for name, want := range map[string]int{"text/html": 1, "text/css": 2, "image/png": 3, "": 3, "text": 2} {
		assert.Equal(t, want, Best(by, name), name)
	}
	assert.Zero(t, Best(map[string]int{"text/*": 2}, "image/png"))
	for name, want := range map[string][2]bool{
		"text/html": {true, true}, "text/*": {false, true}, "*/*": {false, true}, "*/html": {false, false},
		"text": {false, false}, "Text/html": {false, false}, "text/html;a=b": {false, false}, "text/h*": {false, false}, "": {false, false},
	} {
		assert.Equal(t, want, [2]bool{Valid(name, false), Valid(name, true)}, name)
	}
}
