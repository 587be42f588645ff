// Command archive crawls a WARC file in place of the network, by a Fetcher of its own.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/textproto"
	"os"
	"strconv"

	"github.com/treadlight/crawl"
)

type archive map[string][]byte // responses by their URLs

func (a archive) read(r *bufio.Reader) error {
	for version, err := r.ReadString('\n'); version != ""; version, err = r.ReadString('\n') {
		h, err2 := textproto.NewReader(r).ReadMIMEHeader()
		n, err3 := strconv.Atoi(h.Get("Content-Length"))
		block, err4 := io.ReadAll(io.LimitReader(r, int64(n)+4)) // two empty lines end a record
		if err = cmp.Or(err, err2, err3, err4); err != nil {
			return err
		}
		if h.Get("WARC-Type") == "response" {
			a[h.Get("WARC-Target-URI")] = block[:n]
		}
	}
	return nil
}

// Fetch implements crawl.Fetcher.
func (a archive) Fetch(_ context.Context, req *http.Request) (*http.Response, error) {
	if message, ok := a[req.URL.String()]; ok {
		return http.ReadResponse(bufio.NewReader(bytes.NewReader(message)), req)
	}
	return &http.Response{StatusCode: http.StatusNotFound}, nil
}

func run(out io.Writer, file io.Reader, seed string) error {
	a := archive{}
	c, err := crawl.New(crawl.Options{Fetcher: a, Politeness: crawl.PolitenessOptions{Strategy: "off"}})
	if err = cmp.Or(err, a.read(bufio.NewReader(file))); err != nil {
		return err
	}
	for page, err := range c.Crawl(context.Background(), seed) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, page.Status, page.URL, page.Title())
	}
	return nil
}

func main() { log.Println(run(os.Stdout, os.Stdin, os.Args[1])) }
