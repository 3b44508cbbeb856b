package listing

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, text string, f Format) []channel.Line {
	t.Helper()
	lines, err := Read(strings.NewReader(text), f, now)
	if err != nil {
		t.Fatal(err)
	}
	return collect(lines)
}

func collect(lines iter.Seq[channel.Line]) (all []channel.Line) {
	for l := range lines {
		all = append(all, l)
	}
	return all
}

func TestReads(t *testing.T) {
	tests := []struct {
		name string
		f    Format
		in   string
		want string // line: key, or line! for a bad one
	}{
		{"list", List, "# ours\nexample.org\n\nhttps://example.org/news/  # daily\nhttp://", "2 https://example.org|4 https://example.org /news/|5!"},
		{"csv", CSV, "url,weight,filters\nhttps://a.example/,2,\"x$\ny$\"\nhttps://b.example/d/,,\nhttps://c.example/,much,\n", "2 https://a.example|4 https://b.example /d/|5!"},
		{"csv bad quote", CSV, "url\nhttps://a.example/\n\"https://b.example/\n", "2 https://a.example|3!"},
		{"csv unknown column", CSV, "url,wieght\nhttps://a.example/,1\n", "1!"},
		{"csv too many cells", CSV, "url\nhttps://a.example/,1\n", "2!"},
		{"json", JSON, "{\"url\":\"https://a.example/\"}\n{\"url\":\"https://b.example/\",\"pgaes\":3}\n{", "1 https://a.example|2!|3!"},
		{"json pattern", JSON, "{\"url\":\"https://a.example/\",\"filters\":[\"(\"]}", "1!"},
		{"json dirs", JSON, "{\"host\":\"https://a.example\",\"dirs\":[\"/x/\",\"/y/\"]}", "1 https://a.example /x/ /y/"},
		{"sitemap", Sitemap, "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n<url><loc>https://a.example/1</loc></url>\n<url><loc>https://a.example/2</loc></url>\n<url><loc>https://b.example/</loc></url></urlset>", "2 https://a.example|4 https://b.example"},
		{"sitemap index", Sitemap, "<sitemapindex><sitemap><loc>https://a.example/1.xml</loc></sitemap></sitemapindex>", "1!"},
		{"sitemap torn", Sitemap, "<urlset><url><loc>https://a.example/1</l", "1!"},
		{"opml in latin 1", OPML, "<?xml version='1.0' encoding='ISO-8859-1'?><opml><body><outline text='caf\xe9' htmlUrl='https://a.example/'/></body></opml>", "1 https://a.example"},
		{"opml", OPML, "<opml><body><outline text='f'>\n<outline htmlUrl='https://a.example/' xmlUrl='https://a.example/feed'/></outline></body></opml>", "2 https://a.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range read(t, tt.in, tt.f) {
				if l.Err != nil {
					got = append(got, fmt.Sprintf("%d!", l.N))
					continue
				}
				got = append(got, fmt.Sprintf("%d %s", l.N, strings.ReplaceAll(strings.TrimSpace(l.Channel.Scope.Key()), "\n", " ")))
			}
			if s := strings.Join(got, "|"); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

func TestAllOrNothingNamesBadLines(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		if i%2 == 1 {
			b.WriteString("ftp://x/\n")
		} else {
			fmt.Fprintf(&b, "https://h%d.example/\n", i)
		}
	}
	lines, err := Read(strings.NewReader(b.String()), List, now)
	if err != nil {
		t.Fatal(err)
	}
	all := collect(AllOrNothing(lines))
	if len(all) != 2 || all[0].Err != nil || all[1].Err == nil || all[1].N != 2 {
		t.Fatalf("got %d lines, want one good and one error", len(all))
	}
	for _, want := range []string{"channel: not a Web URL", "line 4:", "line 40:", "and 30 more"} {
		if !strings.Contains(all[1].Err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, all[1].Err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	in := `{"url":"https://a.example/x/","host":"https://a.example","dirs":["/x/","/y/"],"seeds":["https://a.example/y/"],"filters":["html$"],"exclude":["\\?"],"depth":3,"order":"opic","pages":70,"page_bytes":1000,"weight":2.5,"text_only":true,"group":2,"state":"paused","reason":"moving"}`
	first := read(t, in, JSON)
	if first[0].Err != nil {
		t.Fatal(first[0].Err)
	}
	for _, f := range []Format{JSON, CSV} {
		var b bytes.Buffer
		w, err := NewWriter(&b, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&first[0].Channel); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again := read(t, b.String(), f)
		if len(again) != 1 || again[0].Err != nil || !reflect.DeepEqual(again[0].Channel, first[0].Channel) {
			t.Errorf("%s: got %+v\nwant %+v\nfrom %s", f, again, first[0].Channel, b.String())
		}
	}
}

func TestDetect(t *testing.T) {
	for head, want := range map[string]Format{
		"url,weight\n": CSV, "{\"url\":1}": JSON, "https://x/": List, "<?xml version='1.0'?><urlset>": Sitemap, "<?xml version='1.0'?><opml>": OPML, "[\n{\"url\":1}]": JSON, "[2606:2800::1]\n": List, "<!DOCTYPE html>": Sitemap, "\xef\xbb\xbfURL\n": CSV,
	} {
		if got := Detect("", []byte(head)); got != want {
			t.Errorf("%q: %s, want %s", head, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"url\nhttps://a/", "{\"url\":\"a.example\"}", "<urlset><url><loc>http://a/</loc></url></urlset>", "<opml><outline xmlUrl='a.b'/></opml>", "a.example\n#"} {
		for i := range Formats() {
			f.Add(s, i)
		}
	}
	f.Fuzz(func(t *testing.T, s string, i int) {
		lines, err := Read(strings.NewReader(s), Formats()[(i%5+5)%5], now)
		if err != nil {
			t.Fatal(err)
		}
		for l := range lines {
			if l.N < 1 {
				t.Fatalf("line %d", l.N)
			}
			if l.Err == nil {
				if err := Check(&l.Channel); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestNoText: a list of bytes that are no text is called that, once, instead of rubbish for every line of it.
func TestNoText(t *testing.T) {
	for text, format := range map[string]Format{
		"url\x00,x\n": CSV, "\xff\xd8\xff\xe0,b\nc\n": CSV,
		"\x7fELF\x02\x01\n\xff\x80\n\x00\n": List, "\x93\xb9\x1b[2J\nx\n": List, "\x00\n\x00\n": JSON,
	} {
		lines, err := Read(strings.NewReader(text), format, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for l := range lines {
			if n++; l.Err == nil || !strings.Contains(l.Err.Error(), "no text") {
				t.Errorf("%q: %v", text, l.Err)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d lines", text, n)
		}
	}
	lines, err := Read(strings.NewReader("# caf\xe9, as before UTF-8\nhttps://example.org/\n"), List, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for l := range lines {
		if l.Err != nil {
			t.Errorf("a list with a letter of an older encoding: %v", l.Err)
		}
	}
}

// TestWhyBadLine: what is wrong with a line or a whole file is said once, in words that need no knowledge of Go.
func TestWhyBadLine(t *testing.T) {
	for _, c := range []struct{ text, why string }{
		{`{"url":5}`, "url: want a text in quotes, not number"},
		{`{"url":"https://a.example/","weight":"x"}`, "weight: want a number, not string"},
		{`{"url":"https://a.example/","pages":1.5}`, "pages: want a whole number, not 1.5"},
		{`{"url":"https://a.example/","text_only":"yes"}`, "text_only: want true or false, not string"},
		{`{"url":"https://a.example/","filters":"x"}`, "filters: want a list, not string"},
		{`{"url":"https://a.example/","wieght":1}`, `no field "wieght": there are id, url, host, dirs, seeds, filters, exclude, depth, order, pages, page_bytes, weight, text_only, group, state, reason`},
		{`{"url":"https://a.example/","weight":1,"Weight":2}`, `"Weight" is there twice`},
		{`{"url":"https://a.example/"`, "this is no JSON: it breaks off"},
		{`[{"url":"https://a.example/"}]`, "this is a JSON array: write one object a line, without brackets around them and commas between"},
		{"[\n{\"url\":\"https://a.example/\"},\n]", "this is a JSON array: write one object a line, without brackets around them and commas between"},
		{"url,weight,url\na.example,1,b.example\n", "the header line names the column url twice"},
		{"<!DOCTYPE html>\n<html><a href='https://a.example/'>", "this is a page of the Web, and no list: a list is CSV, JSON lines, URLs, a sitemap or OPML"},
		{"url;weight\na.example;1\n", `the header line "url;weight" has no commas: columns are separated by commas`},
		{"url\tweight\na.example\t1\n", `the header line "url\tweight" has no commas: columns are separated by commas`},
		{"url,weight\na.example,x\n", `weight: want a number, not "x"`},
		{"url,pages\na.example,1.5\n", `pages: want a whole number, not "1.5"`},
		{"url,text_only\na.example,yes\n", `text_only: want true or false, not "yes"`},
		{"https://a.example/ https://b.example/\n", `"https://a.example/ https://b.example/" is more than one word: write one URL a line, and %20 for a space in it`},
		{"https://a.example/\thttps://b.example/\n", `"https://a.example/\thttps://b.example/" is more than one word: write one URL a line, and %20 for a space in it`},
		{"<urlset></urlset>", "no <loc> in it: is it a sitemap?"},
	} {
		got := read(t, c.text, Detect("", []byte(c.text)))
		if len(got) != 1 || got[0].Err == nil || got[0].Err.Error() != ErrLine.Error()+": "+c.why {
			t.Errorf("%s: %v", c.text, got)
		}
	}
	if got := read(t, "<urlset><url><loc>foo bar</loc></url></urlset>", Sitemap); len(got) != 1 { // what is wrong is the one address
		t.Errorf("a sitemap with one bad address: %v", got)
	}
}

// TestEditLeavesGivenUp changes the settings of a channel that was given up by its own record, as an operator's edit does: its state and reason stay. It is
// active again if the record says so, and in a list, which is of new channels.
func TestEditLeavesGivenUp(t *testing.T) {
	scope, seed, err := channel.ScopeOf("https://a.example/")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		was, says string
		want      channel.State
		reason    string
	}{
		{GivenUp, GivenUp, channel.Marked, "12 crawls failed"}, {GivenUp, Active, channel.Active, ""}, {GivenUp, Paused, channel.Paused, "12 crawls failed"},
		{Paused, Paused, channel.Paused, "12 crawls failed"}, {Active, GivenUp, channel.Active, ""},
	} {
		ch := channel.Channel{Scope: scope, Seeds: []string{seed}, State: map[string]channel.State{GivenUp: channel.Marked, Paused: channel.Paused, Active: channel.Active}[c.was]}
		if ch.State != channel.Active {
			ch.Reason = "12 crawls failed"
		}
		r := Of(&ch)
		r.Weight, r.State = 2, c.says
		if err := r.Apply(&ch); err != nil || ch.Settings.Weight != 2 || ch.State != c.want || ch.Reason != c.reason {
			t.Errorf("%s that is to be %s: %v, %q, weight %v, %v", c.was, c.says, ch.State, ch.Reason, ch.Settings.Weight, err)
		}
		if again, err := r.Channel(time.Now()); err != nil || c.says == GivenUp && again.State != channel.Active {
			t.Errorf("a list's %s: %v, %v", c.says, again.State, err)
		}
	}
}

// TestADirectoryThatIsNamedTwice: a channel of one directory is one, however often a list or an edit names that.
func TestADirectoryThatIsNamedTwice(t *testing.T) {
	r := Record{URL: "https://a.example/", Dirs: []string{"/x/", "/x/"}}
	ch, err := r.Channel(now)
	if want := []string{"/x/"}; err != nil || ch.Scope.Kind != channel.Directory || !reflect.DeepEqual(ch.Scope.Dirs, want) {
		t.Errorf("%+v, %v", ch.Scope, err)
	}
	r = Record{URL: "https://a.example/", Dirs: []string{"/y/", "/x/", "/y/"}}
	if err = r.Apply(&ch); err != nil || ch.Scope.Kind != channel.Directories || !reflect.DeepEqual(ch.Scope.Dirs, r.Dirs[:2]) {
		t.Errorf("edited %+v, %v", ch.Scope, err)
	}
	r.Dirs = nil
	if err = r.Apply(&ch); err != nil || ch.Scope.Kind != channel.WholeHost || ch.Scope.Dirs != nil {
		t.Errorf("of the whole host %+v, %v", ch.Scope, err)
	}
}

// TestDirectoriesOfOlderLists: directories with "^", as versions before 0.2.0 exported them, become those of today, each once. An edit leaves what is stored.
func TestDirectoriesOfOlderLists(t *testing.T) {
	r := Record{Host: "https://h.example", Dirs: []string{"/a^b/", "/a%5Eb/", "/a^b/"}}
	ch, err := r.Channel(time.Now())
	if err != nil || ch.Scope.Kind != channel.Directory || !slices.Equal(ch.Scope.Dirs, []string{"/a%5Eb/"}) {
		t.Errorf("%+v, %v", ch.Scope, err)
	}
	old := channel.Channel{State: channel.Active, Scope: channel.Scope{Kind: channel.Directories, Host: r.Host, Dirs: []string{"/a^b/", "/x/"}}, Seeds: []string{"https://h.example/x/"}}
	edit := Of(&old)
	if err := edit.Apply(&old); err != nil || !slices.Equal(old.Scope.Dirs, []string{"/a^b/", "/x/"}) {
		t.Errorf("%+v, %v", old.Scope, err)
	}
}
