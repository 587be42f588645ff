package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesThatSayNothing(t *testing.T) {
	for _, text := range []string{
		"", " \n\n", "# only a comment\n", "---\n", "\ufeff", "\ufeff# comment\n", "{}", "null",
		"ratelimit:\nscope:\nhosts:\n", "hosts: []", "scope: {include: , exclude: []}",
	} {
		for _, name := range []string{"crawl.yaml", "crawl.yml", "crawl"} {
			l, err := Load(Sources{File: name, Reader: strings.NewReader(text)})
			require.NoError(t, err, "%s: %q", name, text)
			require.Equal(t, Default(), l.Config, "%s: %q", name, text)
		}
	}
	for _, text := range []string{"", "  \n", "{}", "\ufeff{}", "null", `{"scope": null}`} {
		l, err := Load(Sources{File: "crawl.JSON", Reader: strings.NewReader(text)})
		require.NoError(t, err, "%q", text)
		require.Equal(t, Default(), l.Config, "%q", text)
	}
}

func TestWrongYAML(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "concurency: 1", []string{"concurency: is not a setting; did you mean concurrency? [file crawl.yaml:1]"}},
		{"unknown section", "\nratelimt: {max_rps: 1}", []string{"ratelimt: is not a setting; did you mean ratelimit? [file crawl.yaml:2]"}},
		{"key of another section", "timeout: 1s", []string{"timeout: is not a setting; did you mean fetch.timeout? [file crawl.yaml:1]"}},
		{"name of a flag", "fetch: {max-rate: 1}", []string{"fetch.max-rate: is not a setting; did you mean ratelimit.max_rps? [file crawl.yaml:1]"}},
		{"dashes", "per-host-max: 1", []string{"per-host-max: is not a setting; did you mean per_host_max? [file crawl.yaml:1]"}},
		{"capitals", "Fetch: {timeout: 1s}", []string{"Fetch: is not a setting; did you mean fetch? [file crawl.yaml:1]"}},
		{"far from all", "database: x", []string{"database: is not a setting; see crawl config --reference [file crawl.yaml:1]"}},
		{"odd keys", "\"\": 1\n\"a\\nb\": 2", []string{
			`"": is not a setting; see crawl config --reference [file crawl.yaml:1]`,
			`"a\nb": is not a setting; see crawl config --reference [file crawl.yaml:2]`,
		}},
		{"same key", "depth: 1\ndepth: 2", []string{"depth: is set already on line 1; remove one of the two [file crawl.yaml:2]"}},
		{"same section", "fetch: {}\nlog: {}\nfetch: {}", []string{"fetch: is set already on line 1; remove one of the two [file crawl.yaml:3]"}},
		{"no value", "depth:\noutput: {path: }", []string{
			"depth: has no value; give a whole number of links between -1 and 1000000, or remove the line [file crawl.yaml:1]",
			`output.path: has no value; write "" for an empty text, or remove the line [file crawl.yaml:2]`,
		}},
		{"list for a number", "depth: [1]", []string{"depth: is a list; give a whole number of links between -1 and 1000000 [file crawl.yaml:1]"}},
		{"group for a text", "output: {path: {a: b}}", []string{"output.path: is a group of settings; give a text [file crawl.yaml:1]"}},
		{"number for a section", "fetch: 3", []string{"fetch: is a single value; give settings by their names [file crawl.yaml:1]"}},
		{"group for a list", "fetch: {headers: {Cookie: s3cret}}", []string{"fetch.headers: is a group of settings; give a list of texts [file crawl.yaml:1]"}},
		{"list in a list", "scope: {include: [a, [b], ]}", []string{"scope.include[1]: is a list; give a text [file crawl.yaml:1]"}},
		{"nothing in a list", "scope: {include: [a, ~]}", []string{"scope.include[1]: is nothing; give a text [file crawl.yaml:1]"}},
		{"boolean words", "fetch: {insecure: y}", []string{`fetch.insecure: "y" is neither; give true or false [file crawl.yaml:1]`}},
		{"infinite", "ratelimit: {max_rps: .inf}", []string{`ratelimit.max_rps: ".inf" is not a number; give a rate in requests per second between 0.001 and 1000000 [file crawl.yaml:1]`}},
		{"negative", "ratelimit: {max_rps: -2}\nfetch: {timeout: -1s}", []string{
			"fetch.timeout: -1s is below 100ms; give a duration with its unit, such as 1m30s, between 100ms and 1h [file crawl.yaml:2]",
			"ratelimit.max_rps: -2 is below 0.001; give a rate in requests per second between 0.001 and 1000000 [file crawl.yaml:1]",
		}},
		{"overflow", "concurrency: 1e400\nfetch: {max_redirects: 99999999999999999999}", []string{
			"concurrency: 1e400 is not a whole number; give a whole number of fetches between 1 and 10000 [file crawl.yaml:1]",
			"fetch.max_redirects: 99999999999999999999 is out of range; give a whole number of redirects between 0 and 50 [file crawl.yaml:2]",
		}},
		{"not settings", "- a\n- b", []string{"the file is a list; give settings by their names [file crawl.yaml:1]"}},
		{"a text", "hello", []string{"the file is a single value; give settings by their names [file crawl.yaml:1]"}},
		{"tab", "fetch:\n\ttimeout: 1s", []string{"the file is not YAML: found character that cannot start any token; indent with spaces, this line has a tab [file crawl.yaml:2]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, problems(t, yamlFile(c.text)))
		})
	}
}

func TestWrongHosts(t *testing.T) {
	require.Equal(t, []string{
		`hosts[0].match: "A.test" is not how the host is named; write "a.test" [file crawl.yaml:2]`,
		"hosts[1].match: is empty; give a host such as example.com or *.example.com [file crawl.yaml:3]",
		"hosts[2].max_rps: 0 is below 0.001; give a rate in requests per second between 0.001 and 1000000 [file crawl.yaml:4]",
		"hosts[3]: is a single value; give \"match: example.com\" and what differs there [file crawl.yaml:5]",
		"hosts[4].matc: is not a setting; did you mean hosts[4].match? [file crawl.yaml:6]",
		"hosts[4].match: is empty; give a host such as example.com or *.example.com [file crawl.yaml:6]",
		"hosts[5].min_rps: 3 is above hosts[5].max_rps, which is 2 [file crawl.yaml:7]; lower hosts[5].min_rps or raise hosts[5].max_rps [file crawl.yaml:7]",
		`hosts[6].match: "c.test" is covered by hosts[2], "c.test", and the first that matches counts; put it before that or remove it [file crawl.yaml:8]`,
		"hosts[7].match: is set already on line 9; remove one of the two [file crawl.yaml:9]",
		`hosts[8].min_rps: "x" is not a number; give a rate in requests per second between 0.001 and 1000000 [file crawl.yaml:10]`,
		"hosts[9].max_pages: is not a setting; see crawl config --reference [file crawl.yaml:11]",
		"hosts[10]: is a list; give \"match: example.com\" and what differs there [file crawl.yaml:12]",
	}, problems(t, yamlFile(`hosts:
- match: A.test
- max_rps: 1
- {match: c.test, max_rps: 0}
- d.test
- {matc: e.test}
- {match: f.test, min_rps: 3, max_rps: 2}
- {match: c.test}
- {match: h.test, match: i.test}
- {match: j.test, min_rps: x}
- {match: k.test, max_pages: 3}
- [l.test]
`)))
	require.Equal(t,
		[]string{`hosts: is a group of settings; give a list, each item with "match: example.com" and what differs there [file crawl.yaml:1]`},
		problems(t, yamlFile("hosts: {a.test: {max_rps: 1}}")))
	require.Equal(t,
		[]string{"ratelimit.max_rps: 0 is below 0.001; give a rate in requests per second between 0.001 and 1000000 [file crawl.yaml:1]"},
		problems(t, yamlFile("ratelimit: {max_rps: 0}\nhosts: [{match: a.test}, {match: b.test}]")), "what a rule takes over is not reported twice")
}

// TestHostileFiles must end soon and small; what they are told is secondary.
func TestHostileFiles(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	rubbish := strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(&rubbish, "k%d: 1\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases":         {bomb, "aliases are not followed"},
		"self reference":  {"a: &a [*a]", "crawl"},
		"deep flow":       {strings.Repeat("[", fileMax/2), "crawl"},
		"deep blocks":     {strings.Repeat("- ", fileMax/2), "crawl"},
		"deep keys":       {strings.Repeat("? ", fileMax/2), "crawl"},
		"nested":          {"a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "nested more than 32 levels"},
		"ten megabytes":   {strings.Repeat("# padding\n", 1<<20), "the file is larger than 1MiB"},
		"many unknown":    {rubbish.String(), "more"},
		"one long key":    {strings.Repeat("k", fileMax-10) + ": 1", "crawl"},
		"one long scalar": {"depth: " + strings.Repeat("9", fileMax-10), "out of range"},
		"zero bytes":      {strings.Repeat("\x00", 1000), "control characters are not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(yamlFile(c.text))
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 20_000, "length of the message")
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	lines := problems(t, yamlFile(text.String()))
	require.Len(t, lines, problemsMax+1)
	require.Equal(t, "and 400 more", lines[problemsMax])
}

func loadText(text string) (*Loaded, error) {
	return Load(Sources{File: "c.yaml", Reader: strings.NewReader(text)})
}

// Rules by name and in parts are the same rules as in a line.
func TestFieldsByName(t *testing.T) {
	l, err := loadText(`
extract:
  fields:
    title: css:h1
    price: {css: .price, attr: content, type: number}
    tags:
      xpath: >
        //a[@rel='tag']
        /@href
      all: yes
      match: /blog/
    author: ["css:meta[name=author]@content", {xpath: //address}]
`)
	require.NoError(t, err)
	want := []string{
		"title=css:h1", "price:number=css:.price@content", "tags:all=xpath://a[@rel='tag'] /@href url~/blog/",
		"author=css:meta[name=author]@content", "author=xpath://address",
	}
	require.Equal(t, want, l.Config.Extract.Fields)
	require.Equal(t, 5, l.Origins["extract.fields[1]"].Line)

	var b strings.Builder
	require.NoError(t, l.WriteYAML(&b))
	again := must(loadText(b.String()))
	require.Equal(t, l.Config, again.Config, "what is written is read back the same")
}

// The manual says how rules for fields and items are written, and its examples are valid.
func TestRulesOfTheManual(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Reference(&b))
	section, _, _ := strings.Cut(b.String()[strings.Index(b.String(), "\n## extract\n"):], "\n## output\n")
	for _, form := range []string{"item [NAME=]page[ url~REGEXP]", "next param:NAME[=START]", "`--item 'page url~/blog/' --field title=css:h1`"} {
		require.Contains(t, section, form)
	}
	examples := strings.Split(section, "    extract:\n")[1:]
	require.Len(t, examples, 2)
	for i, example := range examples {
		example, _, _ = strings.Cut(example, "\n\n")
		l, err := loadText("extract:\n" + strings.ReplaceAll("\n"+example, "\n    ", "\n"))
		require.NoError(t, err)
		rules, err := l.Config.Extract.Rules()
		require.NoError(t, err)
		require.Len(t, rules.Kinds, []int{0, 2}[i])
	}
}

// Everything that is wrong is told at once, with its path.
func TestFieldProblems(t *testing.T) {
	_, err := loadText(`
extract:
  fields:
    a: {css: "p["}
    b: {xpath: "//p[", type: money}
    c: {csss: p}
    d: {css: p, all: maybe}
    e: p
    f: [css:p, {css: [p]}]
    g: {css: p, xpath: //p}
    "h i": css:p
    j:
    a: css:p
`)
	require.Error(t, err)
	for _, want := range []string{
		`extract.fields.a: css: "p[" is no CSS selector`, "c.yaml:4",
		`extract.fields.b: "money" is no type of a value; give one of text, html, number, url, date`,
		`extract.fields.c: has the part "csss"; there are all, attr, css, json, match, re, type, xpath`,
		`extract.fields.d: "maybe" is neither; give true or false for all`,
		`extract.fields.e: "p" begins with none of css:, xpath:, json: and re:`,
		"extract.fields.f: has not one text for css",
		"extract.fields.g: css: give one of css, xpath, json and re",
		`"h i" is no name of a field`,
		"extract.fields.j: is nothing; give a rule",
		"extract.fields.a: is set already on line 4",
	} {
		require.ErrorContains(t, err, want)
	}

	_, err = Load(Sources{Flags: []FlagValue{{Name: "field", Value: "a:b:all=css:p"}, {Name: "field", Value: "x=css:["}, {Name: "field", Value: "x"}}})
	require.ErrorContains(t, err, `"b" is no type of a value`)
	require.ErrorContains(t, err, `"[" is no CSS selector`)
	require.ErrorContains(t, err, `"x" has no =`)
	_, err = Load(Sources{Flags: []FlagValue{{Name: "field", Value: "x=xpath:substring(//p,'a')@b"}}})
	require.ErrorContains(t, err, "is no XPath expression")
}

func TestTooManyFields(t *testing.T) {
	c := Default()
	for range 201 {
		c.Extract.Fields = append(c.Extract.Fields, "a=css:p")
	}
	require.ErrorContains(t, c.Validate(), "extract.fields: has 201 rules; give at most 200")
}

func TestWhichBodiesAreRead(t *testing.T) {
	l := mustLoad(t, Sources{Flags: flags("set", "fetch.accept_types=text/*", "set", "fetch.accept_types=!text/css", "set", "fetch.skip_larger=50MiB")})
	require.Equal(t, []string{"text/*", "!text/css"}, l.Config.Fetch.AcceptTypes)
	require.EqualValues(t, 50<<20, l.Config.Fetch.SkipLarger)

	_, err := Load(Sources{Flags: flags("set", "fetch.accept_types=html")})
	require.ErrorContains(t, err, `fetch.accept_types[0]: "html" is no pattern of media types: write type/subtype`)
}

// What records have is a list of words, with commas or repeated, in any layer.
func TestWhatRecordsHave(t *testing.T) {
	has := func(src Sources) (parts []string) {
		o := mustLoad(t, src).Config.Output
		for _, part := range []string{"text", "main-text", "metadata", "body", "links", "digest"} {
			if o.Has(part) {
				parts = append(parts, part)
			}
		}
		return parts
	}
	require.Equal(t, []string{"links", "digest"}, has(Sources{}))
	require.Equal(t, []string{"text", "body", "links", "digest"}, has(Sources{Flags: flags("record", "text, body")}))
	require.Equal(t, []string{"metadata"}, has(Sources{Flags: flags("record", "no-links,no-digest", "record", "metadata")}))
	require.Equal(t, []string{"main-text", "links"}, has(yamlFile("output: {record: [no-digest, main-text]}")))
	require.Equal(t, []string{"text", "links", "digest"}, has(Sources{File: "-", Reader: strings.NewReader("output: {record: body}"), Env: []string{"CRAWL_OUTPUT_RECORD=text"}}), "a stronger layer replaces a list")
	require.Equal(t,
		[]string{`output.record[1]: "links" is none of the words; give some of text, main-text, markdown, metadata, body, no-links, no-digest [flag --record]`},
		problems(t, Sources{Flags: flags("record", "text,links")}))
	require.Equal(t, "flag --record", mustLoad(t, Sources{Flags: flags("record", "text,body")}).Origins["output.record[1]"].String())
}
