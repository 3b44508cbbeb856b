package compare

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func page(body string) *Features {
	return Of(Fetch{URL: "https://a.example/x", Status: 200, Type: "text/html", Body: []byte(body)})
}

// TestWhatCounts changes one thing of a page at a time.
func TestWhatCounts(t *testing.T) {
	const text = `<title>News of the day</title><nav><a href="/">home</a></nav><main><p>The harbour was closed for 3 days by the storm. <a href="https://b.example/">more</a></p></main>`
	for _, c := range []struct {
		name, body string
		want       Differ
	}{
		{"nothing", text, 0},
		{"case and marks", `<title>NEWS of the day!</title><nav><a href="/">home</a></nav><main><p>The harbour was closed for <b>3</b> days, by the storm: <a href="https://www.b.example/z">more</a></p></main>`, 0},
		{"a script", text + "<script>x()</script>", 0},
		{"the menu's words", `<title>News of the day</title><nav><a href="/">start</a></nav><main><p>The harbour was closed for 3 days by the storm. <a href="https://b.example/">more</a></p></main>`, 0},
		{"a number", `<title>News of the day</title><nav><a href="/">home</a></nav><main><p>The harbour was closed for 9 days by the storm. <a href="https://b.example/">more</a></p></main>`, Text | Figures},
		{"a word", `<title>News of the day</title><nav><a href="/">home</a></nav><main><p>The harbour was opened for 3 days by the storm. <a href="https://b.example/">more</a></p></main>`, Text},
		{"a link outside", `<title>News of the day</title><nav><a href="/">home</a></nav><main><p>The harbour was closed for 3 days by the storm. <a href="https://c.example/">more</a></p></main>`, Outside},
		{"a link inside", `<title>News of the day</title><nav><a href="/start">home</a></nav><main><p>The harbour was closed for 3 days by the storm. <a href="https://b.example/">more</a></p></main>`, Inside},
	} {
		r := Host{}.Compare(page(text), page(c.body))
		verdict := Conflict
		if c.want == 0 {
			verdict = Same
		}
		if r.Differ != c.want || r.Verdict != verdict {
			t.Errorf("%s: differs by %b, %v; want %b, %v", c.name, r.Differ, r.Verdict, c.want, verdict)
		}
	}
	for _, added := range []string{
		`<script src=//evil.example/x.js></script>`, `<script src="https://evil.example/x.js"/></script>`, `<script>location = "https://evil.example/" + 1</script>`, `<script>import("//cdn.evil.example/x.js")</script>`,
		`<script src="data:text/javascript,alert(1)"></script>`, `<iframe src=https://evil.example/></iframe>`, `<iframe srcdoc="<script src='https://evil.example/x.js'></script>"></iframe>`, `<embed src=https://evil.example/>`,
		`<object data=https://evil.example/></object>`, `<base href=https://evil.example/>`, `<link rel="preload stylesheet" href=https://evil.example/x.css>`, `<form action=https://evil.example/></form>`,
		`<form><button formaction=https://evil.example/></form>`, `<meta http-equiv=Refresh content="0; url='https://evil.example/'">`, `<area href=https://evil.example/>`,
	} {
		if r := (Host{}).Compare(page(text), page(added+text)); r.Differ != Sources || r.Verdict != Conflict {
			t.Errorf("%s: differs by %b, %v", added, r.Differ, r.Verdict)
		}
	}
	for _, alike := range []string{
		`<script src=/x.js></script>`, `<script src=https://www.a.example/x.js></script>`, `<script>// made for 3 ms by x//y</script>`, `<img src=https://ads7.example/p.gif>`, `<link rel=canonical href=https://b.example/>`, `<meta name=description content="0; url=https://b.example/">`,
	} {
		if r := (Host{}).Compare(page(text), page(text+alike)); r.Verdict != Same {
			t.Errorf("%s: differs by %b, %v", alike, r.Differ, r.Verdict)
		}
	}
	a, b := page(text), page(text)
	b.Status = 404
	if r := (Host{}).Compare(a, b); r.Verdict != Conflict || r.Differ != Status {
		t.Errorf("another status: %+v", r)
	}
}

// TestLearn teaches a host, which then takes as dynamic what it learnt and no more, and forgets it when its pages have become quiet.
func TestLearn(t *testing.T) {
	words := func(from int) *Features {
		f := &Features{Status: 200, Words: 100, Exact: uint64(from)}
		for i := range uint32(100) {
			f.Text = append(f.Text, uint32(from)+i)
		}
		return f
	}
	var h Host
	a, near, far := words(0), words(10), words(50)
	if v := h.Compare(a, near).Verdict; v != Conflict {
		t.Errorf("before anything is learnt: %v", v)
	}
	h.Learn(a, near)
	if v := h.Compare(a, near).Verdict; v != Dynamic {
		t.Errorf("what was learnt: %v", v)
	}
	if v := h.Compare(a, far).Verdict; v != Conflict {
		t.Errorf("far more than was learnt: %v", v)
	}
	before := h
	if h.Learn(a, words(95)); h != before {
		t.Errorf("a pair with next to nothing in common taught %+v", h)
	}
	for range forgetAfter {
		h.Learn(a, a)
	}
	if h != (Host{}) {
		t.Errorf("a host that became quiet still knows %+v", h)
	}
	for _, f := range []*Features{near, a} { // by turns from another host, as behind a balancer
		f.Sources = []uint32{uint32(f.Exact)}
	}
	h.Learn(a, near)
	if v := h.Compare(a, near).Verdict; v != Dynamic {
		t.Errorf("sources that were learnt to differ: %v", v)
	}
	if n := unsafe.Sizeof(h); n > 8 {
		t.Errorf("a host takes %d bytes", n)
	}
}

// TestSamples compares texts that are larger than their samples.
func TestSamples(t *testing.T) {
	set := func(from, n int) []uint32 {
		all := make([]uint32, n)
		for i := range all {
			all[i] = uint32(scatter(uint64(from + i)))
		}
		slices.Sort(all)
		return all[:min(n, MaxText)]
	}
	if s := shared(set(0, 5000), set(1000, 5000)); s < .6 || s > .73 { // 4000 of 6000
		t.Errorf("two thirds in common are estimated as %v", s)
	}
	if s := shared(set(0, 400), set(0, 4000)); s > .2 {
		t.Errorf("a tenth in common is estimated as %v", s)
	}
	if s := shared(nil, nil); s != 1 {
		t.Errorf("two empty texts share %v", s)
	}
}

// FuzzOf takes features of foreign bytes. They are within their limits, sorted, and the same as themselves.
func FuzzOf(f *testing.F) {
	f.Add("text/html; charset=utf-8", []byte(`<title>a</title><p>b 3 <a href="https://c.example/?d=1">e</a>`))
	f.Add("text/plain", []byte("words 1 2 3"))
	f.Add("application/pdf", []byte("%PDF"))
	f.Add("text/html; charset=utf-16", []byte("\xff\xfe<\x00"))
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		x := Of(Fetch{URL: "https://a.example/", Status: 200, Type: media, Body: body})
		for _, s := range [][]uint32{x.Text, x.Inside, x.Outside, x.Figures} {
			if len(s) > MaxText || !slices.IsSorted(s) {
				t.Fatalf("a set of %d", len(s))
			}
		}
		if r := (Host{}).Compare(x, x); r.Verdict != Same {
			t.Errorf("differs from itself: %+v", r)
		}
	})
}

// TestFetchesInOtherWords: the type and the encoding of a page may be said in several ways, and badly; the page is the same.
func TestFetchesInOtherWords(t *testing.T) {
	late := "<!-- " + strings.Repeat("a long beginning ", 100) + "-->"
	of := func(contentType, body string) *Features {
		return Of(Fetch{URL: "https://a.example/x", Status: 200, Type: contentType, Body: []byte(body)})
	}
	want := of("text/html; charset=utf-8", "<p>мир и труд 3")
	for _, c := range [][2]string{
		{"text/html charset=koi8-r", "<p>\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3"}, {"text/html, text/html", "<meta charset=koi8-r><p>\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3"},
		{"html", "<?xml version='1.0' encoding='koi8-r'?><p>\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3"}, {"*/*", late + "<meta charset=koi8-r><p>\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3"},
		{"text/xml", "<?xml version='1.0' encoding='koi8-r'?><html xmlns='http://www.w3.org/1999/xhtml'><p>\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3</p></html>"},
		{"text/html", late + "<p>мир и труд 3"}, {"text/plain; charset=koi8-r", "\xcd\xc9\xd2 \xc9 \xd4\xd2\xd5\xc4 3"},
	} {
		if r := (Host{}).Compare(want, of(c[0], c[1])); r.Verdict != Same {
			t.Errorf("%q of %q: differs by %b, %v", c[1][:min(len(c[1]), 60)], c[0], r.Differ, r.Verdict)
		}
	}
}
