package compare

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// other is a kind of content that is no HTML page, or is longer than a sample.
type other struct {
	name, media string
	body        func(n int) []byte             // the n-th of its kind
	noise       func(rng *rand.Rand) [2]string // what a server replaces at each fetch; nil: it serves the same bytes
	forgeries   map[string]func([]byte) []byte // small ones
	within      map[string]bool                // forgeries that are within what a dynamic host teaches
	dynamic     Verdict                        // of two honest fetches of a dynamic one, at a host that was learnt
}

// others are feeds, data, a table, a program, a PDF, and a long page.
func others() []other {
	once := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) }
	}
	word := func(n, i int) string { return fmt.Sprintf("w%dx%d", n, i*i%7919) }
	text := func(n, words int) string {
		var b strings.Builder
		for i := range words {
			b.WriteString(word(n, i))
			b.WriteByte(" \n"[min(i%17/16, 1)])
		}
		return b.String()
	}
	return []other{
		{
			name: "feed", media: "application/rss+xml; charset=utf-8", dynamic: Dynamic,
			body: func(n int) []byte {
				var b strings.Builder
				b.WriteString("<?xml version='1.0'?><rss version='2.0'><channel><title>News</title><lastBuildDate>NOW</lastBuildDate>\n")
				for i := range 20 {
					fmt.Fprintf(&b, "<item><title>Story %d of %d</title><link>https://news.example/%d/%d</link><description>%s</description></item>\n", i, n, n, i, text(n*100+i, 30))
				}
				return []byte(b.String() + "</channel></rss>")
			},
			noise: func(rng *rand.Rand) [2]string {
				return [2]string{"NOW", fmt.Sprintf("Thu, 26 Nov 2026 %02d:%02d:%02d GMT", rng.IntN(24), rng.IntN(60), rng.IntN(60))}
			},
			forgeries: map[string]func([]byte) []byte{
				"another feed":       func([]byte) []byte { return []byte("<rss><channel><title>Casino</title></channel></rss>") },
				"link led elsewhere": once("<link>https://news.example/", "<link>https://casino.example/"),
				"entry added":        once("<item>", "<item><title>Bankrupt</title><link>https://evil.example/</link></item><item>"),
				"title":              once("Story 3 of", "Story 3 against"),
				"half cut off":       func(b []byte) []byte { return b[:len(b)/2] },
			},
			within: map[string]bool{"title": true},
		},
		{
			name: "data", media: "application/json", dynamic: Dynamic,
			body: func(n int) []byte {
				var b strings.Builder
				b.WriteString(`{"made":"NOW","entries":[`)
				for i := range 40 {
					fmt.Fprintf(&b, `{"id":%d,"name":"%s","balance":-%d},`+"\n", i, text(n*100+i, 6), n*i+7)
				}
				return []byte(b.String() + "{}]}")
			},
			noise: func(rng *rand.Rand) [2]string {
				return [2]string{"NOW", fmt.Sprintf("%d", 1_800_000_000+rng.IntN(1e6))}
			},
			forgeries: map[string]func([]byte) []byte{
				"empty":       func([]byte) []byte { return []byte(`{"made":"1","entries":[]}`) },
				"sign":        once(`"balance":-`, `"balance":`),
				"key renamed": once(`"balance"`, `"debt"`),
			},
			within: map[string]bool{"sign": true, "key renamed": true},
		},
		{
			name: "table", media: "text/csv", body: func(n int) []byte { return []byte("a,b\n" + strings.ReplaceAll(text(n, 300), " ", ",")) },
			forgeries: map[string]func([]byte) []byte{"row added": func(b []byte) []byte { return append(bytes.Clone(b), "x,9\n"...) }},
		},
		{
			name: "style", media: "text/css", body: func(n int) []byte { return fmt.Appendf(nil, "p { margin: %dpx } a { color: #123 }", n) },
			forgeries: map[string]func([]byte) []byte{"hidden": once("p {", "p { display: none;")},
		},
		{
			name: "PDF", media: "application/pdf", dynamic: Conflict, // the arbiter looks, and nobody loses
			body: func(n int) []byte {
				return append([]byte("%PDF-1.7\n/CreationDate (NOW)\n"), bytes.Repeat(fmt.Appendf(nil, "%d 0 obj \x00\xff ", n), 3000)...)
			},
			noise: func(rng *rand.Rand) [2]string { return [2]string{"NOW", fmt.Sprintf("D:%d", rng.IntN(1e9))} },
			forgeries: map[string]func([]byte) []byte{
				"another":  func([]byte) []byte { return []byte("%PDF-1.7 forged") },
				"one byte": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
			},
		},
		{
			name: "picture", media: "image/png", body: func(n int) []byte { return fmt.Appendf(nil, "\x89PNG\r\n\x1a\n%d", n) },
			forgeries: map[string]func([]byte) []byte{"another": func([]byte) []byte { return []byte("\x89PNG\r\n\x1a\nforged") }},
		},
		{
			name: "long page", media: "text/html", body: func(n int) []byte { return []byte("<title>Long</title><main><p>" + text(n, 10_000) + "</p></main>") },
			forgeries: map[string]func([]byte) []byte{
				"sentence added": once("</p>", " The mayor was arrested on Tuesday.</p>"),
				"one word":       func(b []byte) []byte { return bytes.Replace(b, []byte("x49 "), []byte("xx49 "), 1) },
				"said twice": func(b []byte) []byte {
					return bytes.Replace(b, []byte("</p>"), append([]byte(" "), append(b[28:len(b)-11:len(b)-11], "</p>"...)...), 1)
				},
			},
		},
		{
			name: "page beyond what is read", media: "text/html", body: func(n int) []byte { return fmt.Appendf(nil, "<title>Short</title><main><p>Page %d.</p></main>", n) },
			forgeries: map[string]func([]byte) []byte{
				"behind a long comment": func(b []byte) []byte {
					return append(bytes.Clone(b), "<!--"+strings.Repeat("x", maxBody)+"--><p>The company is bankrupt."...)
				},
			},
		},
	}
}

// TestOthers compares what is no HTML page, and pages that are longer than the samples of their text. No forgery of what stays the same is missed, and what differs a little
// at each fetch is the same to a host that has learnt it. Each way is tried on many of its kind, since a sample misses some.
func TestOthers(t *testing.T) {
	const many = 12
	rng := rand.New(rand.NewPCG(3, 4))
	pairs := 0
	for _, o := range others() {
		fetch := func(n int, noisy bool) Fetch {
			f := Fetch{URL: fmt.Sprintf("https://news.example/%d", n), Status: 200, Type: o.media, Body: o.body(n)}
			if noisy {
				with := o.noise(rng)
				f.Body = bytes.Replace(f.Body, []byte(with[0]), []byte(with[1]), 1)
			}
			return f
		}
		compare := func(h Host, a, b Fetch) Verdict { pairs++; return h.Compare(Of(a), Of(b)).Verdict }
		var learnt Host
		for n := range many {
			if v := compare(Host{}, fetch(n, false), fetch(n, false)); v != Same {
				t.Errorf("%s: two fetches of the same are %v", o.name, v)
			}
			for way, forge := range o.forgeries {
				f := fetch(n, false)
				if f.Body = forge(f.Body); compare(Host{}, f, fetch(n, false)) != Conflict {
					t.Errorf("%s: not seen: %s", o.name, way)
				}
			}
			if o.noise == nil {
				continue
			}
			if v := compare(Host{}, fetch(n, true), fetch(n, true)); v != Conflict {
				t.Errorf("%s: two fetches that differ are %v, and nothing was learnt", o.name, v)
			}
			learnt.Learn(Of(fetch(n, true)), Of(fetch(n, true)))
		}
		if o.noise == nil {
			continue
		}
		for n := range many {
			if v := compare(learnt, fetch(n, true), fetch(n, true)); v != o.dynamic {
				t.Errorf("%s: two fetches that differ as is learnt are %v", o.name, v)
			}
			for way, forge := range o.forgeries {
				f := fetch(n, true)
				if f.Body = forge(f.Body); (compare(learnt, f, fetch(n, true)) == Conflict) == o.within[way] {
					t.Errorf("%s that differs at each fetch: %s is seen: %v", o.name, way, !o.within[way])
				}
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

// TestSlowLines has a large file come in part, as it does to who has a slow line, or limits what is used of it. It is like the whole, and vouches for nothing; what begins
// otherwise, goes on where the whole ends, or is too little to tell, is not.
func TestSlowLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	whole := make([]byte, 700<<10)
	for i := range whole {
		whole[i] = byte(rng.Uint32())
	}
	forged := bytes.Clone(whole)
	forged[100<<10] ^= 1
	end := append(bytes.Clone(whole[:280<<10]), make([]byte, 20<<10)...)
	for _, media := range []string{"application/pdf", "text/csv"} {
		of := func(body []byte, short bool) *Features {
			return Of(Fetch{URL: "https://a.example/x", Status: 200, Type: media, Body: body, Short: short})
		}
		all := of(whole, false)
		for name, c := range map[string]struct {
			body []byte
			want Verdict
		}{
			"a part":            {whole[:300<<10], Dynamic},
			"all of it":         {whole, Same},
			"little":            {whole[:60<<10], Conflict},
			"forged":            {forged[:300<<10], Conflict},
			"forged at its end": {end, Conflict},
			"more than all":     {append(bytes.Clone(whole), whole[:200<<10]...), Conflict},
			"forged, at once":   {forged, Conflict},
			"nothing but zero":  {make([]byte, 300<<10), Conflict},
		} {
			f := of(c.body, true)
			if v, back := (Host{}).Compare(f, all).Verdict, (Host{}).Compare(all, f).Verdict; v != c.want || back != c.want {
				t.Errorf("%s of %s: %v, the other way round %v, want %v", name, media, v, back, c.want)
			}
		}
		if v := (Host{}).Compare(of(whole[:300<<10], false), all).Verdict; v != Conflict {
			t.Errorf("a part of %s that is said to be all of it: %v", media, v)
		}
	}
	long := append([]byte("<p>The harbour is closed.</p><!--"), make([]byte, 3*maxBody)...)
	a := Fetch{URL: "https://a.example/x", Status: 200, Type: "text/html", Body: long[:2*maxBody], Short: true}
	b := Fetch{URL: "https://a.example/x", Status: 200, Type: "text/html", Body: long}
	if v := (Host{}).Compare(Of(a), Of(b)).Verdict; v != Same {
		t.Errorf("a page whose end, which is not read, did not come: %v", v)
	}
}
