package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// page is one page of a set with its truth.
type page struct {
	id, kind, url string
	html          []byte
	truth         string
	kept          bool // it is in the half that nothing was tuned on
}

// kept reports whether a page is in the kept half: one bit of the hash of its identifier.
func kept(id string) bool {
	sum := sha256.Sum256([]byte(id))
	return sum[0]&1 == 1
}

// scrapinghub reads a checkout of scrapinghub/article-extraction-benchmark.
func scrapinghub(dir string) ([]page, error) {
	var truth map[string]struct {
		ArticleBody, URL string
	}
	if err := readJSON(filepath.Join(dir, "ground-truth.json"), &truth); err != nil {
		return nil, err
	}
	var pages []page
	for id, t := range truth {
		html, err := gunzip(filepath.Join(dir, "html", id+".html.gz"))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page{id: id, kind: "article", url: t.URL, html: html, truth: t.ArticleBody, kept: kept(id)})
	}
	return sorted(pages), nil
}

// wcxb reads a checkout of Murrough-Foley/web-content-extraction-benchmark, both of its parts.
func wcxb(dir string) ([]page, error) {
	var pages []page
	for _, part := range []string{"dev", "test"} {
		files, err := filepath.Glob(filepath.Join(dir, part, "ground-truth", "*.json"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			var t struct {
				URL      string `json:"url"`
				Internal struct {
					PageType struct{ Primary string } `json:"page_type"`
				} `json:"_internal"`
				GroundTruth struct {
					MainContent string `json:"main_content"`
				} `json:"ground_truth"`
			}
			if err := readJSON(file, &t); err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			html, err := gunzip(filepath.Join(dir, part, "html", name+".html.gz"))
			if err != nil {
				return nil, err
			}
			id, kind := part+"/"+name, t.Internal.PageType.Primary
			if kind == "category" {
				kind = "collection"
			}
			pages = append(pages, page{id: id, kind: kind, url: t.URL, html: html, truth: t.GroundTruth.MainContent, kept: kept(id)})
		}
	}
	return sorted(pages), nil
}

func sorted(pages []page) []page {
	sort.Slice(pages, func(i, j int) bool { return pages[i].id < pages[j].id })
	return pages
}

func readJSON(file string, into any) error {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func gunzip(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
