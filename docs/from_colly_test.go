package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl"
)

// What follows is the code of docs/how-to/coming-from-colly.md, in its order.

func visit(ctx context.Context, o crawl.Options, seeds ...string) error {
	c, err := crawl.New(o)
	if err != nil {
		return err
	}
	return c.Run(ctx, seeds...)
}

func collyBasic(ctx context.Context, o crawl.Options) error {
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		for a := range p.Find("a[href]") {
			fmt.Printf("link found: %q -> %s\n", a.Text(), a.URL("href"))
		}
		return nil
	}
	return visit(ctx, o, "https://hackerspaces.org/") // stays at this host
}

func collyErrors(ctx context.Context, o crawl.Options) error {
	o.OnError = func(f crawl.Failure) { fmt.Println(f.URL, "failed, again:", f.Again, f.Err) }
	return visit(ctx, o, "https://definitely-not-a.website/")
}

func collyLogin(ctx context.Context, o crawl.Options) error {
	o.Access.Cookies, o.HandlersFollow, o.Router = true, true, crawl.NewRouter()
	o.Router.Handle("/login", func(_ context.Context, p *crawl.Page) error {
		form := url.Values{"username": {"admin"}, "password": {"admin"}}
		p.Follow("", crawl.WithBody("application/x-www-form-urlencoded", []byte(form.Encode())), crawl.WithLabel("in"))
		return nil
	})
	o.Router.Handle("label:in", func(_ context.Context, p *crawl.Page) error { p.Follow("/"); return nil })
	return visit(ctx, o, "http://example.com/login")
}

func collyMaxDepth(ctx context.Context, o crawl.Options) error {
	o.Depth = 1 // the links of the seed, and no further ones
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		fmt.Println(p.Depth, p.URL)
		return nil
	}
	return visit(ctx, o, "https://en.wikipedia.org/")
}

func collyMultipart(ctx context.Context, o crawl.Options, file []byte) error {
	o.HandlersFollow, o.OnPage = true, func(_ context.Context, p *crawl.Page) error {
		fmt.Println(p.Method, p.URL, p.Status)
		if p.Method == http.MethodPost {
			return nil
		}
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("file", "gocolly.jpg")
		if err != nil {
			return err
		}
		_, _ = part.Write(file)
		_ = form.Close()
		p.Follow("", crawl.WithBody(form.FormDataContentType(), body.Bytes())) // 64 KiB at most
		return nil
	}
	return visit(ctx, o, "http://localhost:8080/")
}

func collyParallel(ctx context.Context, o crawl.Options) error {
	o.Depth, o.PerHostMax = 2, 2 // as many as the host bears, and two at most: a crawl is always parallel
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		fmt.Println(p.URL)
		return nil
	}
	return visit(ctx, o, "https://en.wikipedia.org/")
}

func collyProxies(ctx context.Context, o crawl.Options, proxies ...*url.URL) error {
	var n atomic.Uint64
	o.Transport = &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		return proxies[n.Add(1)%uint64(len(proxies))], nil
	}}
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		fmt.Println(string(p.Body))
		return nil
	}
	return visit(ctx, o, "https://httpbin.org/ip")
}

func collyQueue(ctx context.Context, o crawl.Options) error {
	o.Concurrency, o.HandlersFollow = 2, true
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		fmt.Println("visited", p.URL)
		if n, _ := strconv.Atoi(p.URL.Query().Get("n")); n < 15 {
			p.Follow("?n=" + strconv.Itoa(n+5))
		}
		return nil
	}
	var seeds []string
	for i := range 5 {
		seeds = append(seeds, "https://httpbin.org/delay/1?n="+strconv.Itoa(i))
	}
	return visit(ctx, o, seeds...)
}

func collyDelay(ctx context.Context, o crawl.Options) error {
	o.Politeness.MinDelay = 5 * time.Second // whatever the rate; to look irregular is no aim here
	return visit(ctx, o, "https://httpbin.org/delay/2?n=0", "https://httpbin.org/delay/2?n=1", "https://httpbin.org/delay/2?n=2")
}

func collyRateLimit(ctx context.Context, o crawl.Options) error {
	o.Politeness.Hosts = []crawl.HostOptions{{Match: "*.httpbin.org", MaxRPS: 0.2, MaxInFlight: 2}}
	return visit(ctx, o, "https://httpbin.org/delay/2?n=0", "https://httpbin.org/delay/2?n=1", "https://httpbin.org/delay/2?n=2")
}
