package main

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	pace = check.Fast
	t.Setenv("PASSWORD", "secret")
	site := http.NewServeMux()
	page := func(w http.ResponseWriter, r *http.Request, text string) {
		if c, err := r.Cookie("session"); err != nil || c.Value != "7" {
			http.Error(w, "log in first", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, text)
	}
	site.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<form action="/session" method="post"><input name="token" value="t1"></form>`)
	})
	site.HandleFunc("POST /session", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "secret" || r.PostFormValue("token") != "t1" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "7", Path: "/"})
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="/orders/1">1</a> <a href="/orders/2">2</a>`)
	})
	site.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		page(w, r, "<h1>Order "+r.PathValue("id")+"</h1>")
	})
	check.Output(t, "login", site, func(ctx context.Context, out io.Writer, base string) error {
		return run(ctx, out, base+"/login")
	})
}
