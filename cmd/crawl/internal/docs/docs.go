// Package docs makes the documentation a site: the pages that the program carries as HTML, with a navigation and a
// search. The site is the same from the program, from any web server and from files, since all its links are relative and
// it loads nothing from elsewhere. Its style is that of the dashboard.
//
// The Markdown says all there is to say of a page: its directory is its section, its first heading its title, and its
// place in the navigation is where the links that begin at README.md come to it.
package docs

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/docs"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// indexFile is a script, since browsers read no JSON from files.
const (
	indexFile  = "search-index.js"
	indexFirst = "const searchIndex = " // what it begins with, unlike that of other programs for documentation
)

//go:embed assets
var assets embed.FS

// Site is every file of the site by its path, such as how-to/install.html.
type Site map[string][]byte

// section is a part of the navigation.
type section struct {
	Title string
	Pages []*page
}

// New makes the site of that version of the program.
func New(version string) (Site, error) {
	sources := map[string][]byte{}
	err := fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sources[name], err = docs.Files.ReadFile(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	pages, err := inOrder(sources, version)
	if err != nil {
		return nil, err
	}
	site := Site{}
	for name, content := range sources {
		if !isPage(name) {
			site[pathOf(name)] = content
		}
	}
	if err := site.addAssets(); err != nil {
		return nil, err
	}
	return site, site.addPages(pages, version)
}

// inOrder renders the pages that can be reached from README.md, nearest first.
func inOrder(sources map[string][]byte, version string) ([]*page, error) {
	var pages []*page
	queued := map[string]bool{front: true}
	for queue := []string{front}; len(queue) > 0; queue = queue[1:] {
		p, err := render(queue[0], sources, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", queue[0], err)
		}
		pages = append(pages, p)
		for _, next := range p.links {
			if !queued[next] {
				queued[next] = true
				queue = append(queue, next)
			}
		}
	}
	return pages, nil
}

func (s Site) addAssets() error {
	for _, name := range []string{"style.css", "icon.svg"} {
		content, _, ok := dashboard.Asset(name)
		if !ok {
			return errors.New("the dashboard has no " + name)
		}
		s[name] = content
	}
	for _, name := range []string{"docs.css", "search.js"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		s[name] = content
	}
	return nil
}

func (s Site) addPages(pages []*page, version string) error {
	frame, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}
	sections := sectionsOf(pages[1:]) // README.md is the first page, and in no section
	var entries []entry
	for _, p := range append(s.lists(sections), pages...) {
		var b bytes.Buffer
		if err := frame.Execute(&b, map[string]any{"Page": p, "Root": up(p.Path), "Sections": sections, "Version": version}); err != nil {
			return err
		}
		s[p.Path] = b.Bytes()
		entries = append(entries, p.entries...)
	}
	index, err := json.Marshal(entries)
	s[indexFile] = slices.Concat([]byte(indexFirst), index, []byte(";\n"))
	return err
}

// missing is the path of the page for paths that the site does not have. It is served for paths of any depth, so only
// ServeHTTP knows where its links lead.
const missing = "404.html"

// lists makes the pages that no source is for: for each directory without a first page the list of its pages, and the
// page for what is missing.
func (s Site) lists(sections []*section) []*page {
	pages := []*page{{Path: missing, Title: "No such page", Body: "<h1>No such page</h1>\n<p>The documentation has no page at this address. The navigation lists all pages, and the search finds words in them.</p>\n"}}
	for _, section := range sections {
		dir := path.Dir(section.Pages[0].Path)
		if dir == "." || slices.ContainsFunc(section.Pages, func(p *page) bool { return p.Path == dir+"/index.html" }) {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", template.HTMLEscapeString(section.Title))
		for _, p := range section.Pages {
			fmt.Fprintf(&b, "<li><a href=\"../%s\">%s</a></li>\n", p.Path, template.HTMLEscapeString(p.Title))
		}
		b.WriteString("</ul>\n")
		//nolint:gosec // its texts are escaped, and paths are those of the program's own files
		pages = append(pages, &page{Path: dir + "/index.html", Title: section.Title, Body: template.HTML(b.String())})
	}
	return pages
}

// sectionsOf groups pages by their directories, in the order of the pages.
func sectionsOf(pages []*page) []*section {
	var sections []*section
	for _, p := range pages {
		title := "More" // of pages in no directory
		if dir := path.Dir(p.Path); dir != "." {
			title = strings.ToUpper(dir[:1]) + dir[1:]
		}
		i := slices.IndexFunc(sections, func(s *section) bool { return s.Title == title })
		if i < 0 {
			i = len(sections)
			sections = append(sections, &section{Title: title})
		}
		sections[i].Pages = append(sections[i].Pages, p)
	}
	return sections
}

// outOf matches what leads from the page for what is missing to files of the site.
var outOf = lazy.Regexp(`(href|src|data-root)="([^#":][^":]*)?"`)

// ServeHTTP serves the files.
func (s Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	content, ok := s[name]
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", dashboard.Policy)
	if _, is := s[name+"/index.html"]; is {
		http.Redirect(w, r, "/"+name+"/", http.StatusMovedPermanently)
		return
	}
	if !ok {
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		// A browser resolves links by the path it asked for, and the page by its root.
		_, _ = w.Write(outOf().ReplaceAll(s[missing], []byte(`$1="/$2"`))) // an error is the reader's
		return
	}
	h.Set("Content-Type", mediatype.OfExtension(path.Ext(name), "text/plain")+"; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// Write writes the files into a directory: a new one, an empty one, or one that it has written before, wholly or not.
func (s Site) Write(dir string) error {
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		index, err := os.ReadFile(filepath.Join(dir, indexFile))
		begun := len(there) == 1 && strings.HasPrefix(indexFirst, string(index)) // and then a full disk, for example
		if err != nil || !begun && !bytes.HasPrefix(index, []byte(indexFirst)) {
			return fmt.Errorf("%s has other files: name a new directory", dir)
		}
	}
	// The index is first, so that a directory that is half written is known as one of ours.
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool { return name == indexFile })
	for _, name := range append([]string{indexFile}, names...) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil { // the umask of the user takes bits away
			return err
		}
		if err := os.WriteFile(file, s[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}
