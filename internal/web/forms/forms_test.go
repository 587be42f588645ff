package forms

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
)

func all(t testing.TB, page, charset string) []*Form {
	t.Helper()
	u, err := canonical.Parse("https://a.test/in/page?x=1")
	require.NoError(t, err)
	base, err := canonical.Parse("https://a.test/base/")
	require.NoError(t, err)
	p := Page{Document: dom.Parse([]byte(page)), URL: u, Base: base, Charset: charset}
	return p.All()
}

// What a form sends, as browsers do.
func TestSubmit(t *testing.T) {
	for name, c := range map[string]struct{ page, url, body string }{
		"kinds":            {`<form method=post action=go><input name=a value=1><input type=hidden name=b value="x y&ä"><input type=checkbox name=c><input type=checkbox name=d checked><input type=radio name=e value=1><input type=radio name=e value=2 checked><input type=reset name=f value=f><input type=button name=g value=g><input name=h disabled value=h><input value=noname><textarea name=i>` + "\nl1\nl2" + `</textarea></form>`, "https://a.test/base/go", "a=1&b=x+y%26%C3%A4&d=on&e=2&i=l1%0D%0Al2"},
		"page as action":   {`<form method=post><input name=a value=1></form>`, "https://a.test/in/page?x=1", "a=1"},
		"first button":     {`<form method=post action=go><button type=button name=x value=x></button><button name=y value=1>y</button><input type=submit name=z value=2></form>`, "https://a.test/base/go", "y=1"},
		"disabled button":  {`<form method=post action=go><button disabled name=y value=1>y</button><input type=submit name=z value=2></form>`, "https://a.test/base/go", "z=2"},
		"button decides":   {`<form action=go enctype=text/plain><input name=a value=1><button formaction=/there formmethod=POST formenctype=application/x-www-form-urlencoded name=y value=1></button></form>`, "https://a.test/there", "a=1&y=1"},
		"image":            {`<form method=post action=go><input type=image name=i></form>`, "https://a.test/base/go", "i.x=0&i.y=0"},
		"selects":          {`<form method=post action=go><select name=a><option disabled>0<option>1 <b>x</b><option value=2></select><select name=b><option>1<option selected>2<option selected value=3></select><select name=c multiple><option>1</select><select name=d multiple><option selected>1<optgroup disabled><option selected>2</optgroup><option selected>3</select></form>`, "https://a.test/base/go", "a=1+x&b=3&d=1&d=3"},
		"form=":            {`<input name=a value=1 form=f><form id=f method=post action=go><input name=b value=2><input name=c value=3 form=g></form><form id=g></form><input form=f name=d value=4>`, "https://a.test/base/go", "a=1&b=2&d=4"},
		"fieldset":         {`<form method=post action=go><fieldset disabled><legend><input name=a value=1></legend><legend><input name=b value=2></legend><input name=c value=3></fieldset><fieldset><input name=d value=4></fieldset></form>`, "https://a.test/base/go", "a=1&d=4"},
		"in a table":       {`<table><form method=post action=go><tr><td><input name=a value=1></td></tr></form></table>`, "https://a.test/base/go", "a=1"},
		"charset":          {`<form method=post action=go accept-charset="none iso-8859-1"><input type=hidden name=_charset_><input name=a value="ä☃"></form>`, "https://a.test/base/go", "_charset_=windows-1252&a=%E4%26%239731%3B"},
		"charset of page":  {`<form method=post action=go><input type=hidden name=_charset_><input name=a value=x></form>`, "https://a.test/base/go", "_charset_=UTF-8&a=x"},
		"plain":            {`<form method=post action=go enctype=text/plain><input name=a value="1 2"></form>`, "https://a.test/base/go", "a=1 2\r\n"},
		"of datalist none": {`<form method=post action=go><datalist><input name=x value=1></datalist></form>`, "https://a.test/base/go", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := all(t, c.page, "")[0].Submit(nil, nil)
			require.NoError(t, err)
			require.Equal(t, []string{"POST", c.url, c.body}, []string{s.Method, s.URL.String(), string(s.Body)})
		})
	}
}

func TestFillIn(t *testing.T) {
	const page = `<form id=s><input name=q></form><form method=post action=/in><input type=hidden name=t value=7><input name=u><input type=email name=m value=old><input type=PASSWORD name=p><input type=checkbox name=r value=yes><button name=ok value=1></button><button name=no value=1></button></form>`
	forms := all(t, page, "")
	user, password := forms[0].Login()
	require.Empty(t, user+password)
	user, password = forms[1].Login()
	require.Equal(t, []string{"m", "p"}, []string{user, password}, "a mail address goes first")
	s, err := forms[1].Submit(map[string]string{"m": "a@b.test", "p": "x&y", "r": "yes"}, nil)
	require.NoError(t, err)
	require.Equal(t, "t=7&u=&m=a%40b.test&p=x%26y&r=yes&ok=1", string(s.Body))
	_, err = forms[1].Submit(map[string]string{"name": ""}, nil)
	require.ErrorContains(t, err, `the form has no field "name"; it has t, u, m, p, r, ok, no`)
	var no *html.Node
	for _, c := range forms[1].controls {
		if v, _ := dom.Attr(c, "name"); v == "no" {
			no = c
		}
	}
	s, err = forms[1].Submit(nil, no)
	require.NoError(t, err)
	require.Equal(t, "t=7&u=&m=old&p=&no=1", string(s.Body))
	s, err = forms[0].Submit(nil, nil)
	require.NoError(t, err)
	require.Equal(t, "GET", s.Method)
	require.Empty(t, s.Body)
}

// Whatever a page has, what is sent has no control that is disabled, and no more than one button.
func FuzzSubmit(f *testing.F) {
	f.Add(`<form method=post><input name=a><fieldset disabled><input name=b></fieldset><button name=c>`, "utf-8")
	f.Add(`<table><form id=x method=post><tr><select name=a><option><optgroup disabled><option selected>`, "shift_jis")
	f.Fuzz(func(t *testing.T, page, charset string) {
		for _, form := range all(t, page, charset) {
			s, err := form.Submit(nil, nil)
			if err != nil {
				continue
			}
			for _, field := range s.Fields {
				name := field.Name
				if len(name) > 2 && (name[len(name)-2:] == ".x" || name[len(name)-2:] == ".y") || name == "x" || name == "y" {
					continue // of an image
				}
				require.Contains(t, form.Names(), name)
			}
		}
	})
}
