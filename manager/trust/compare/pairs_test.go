package compare

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/pond"
)

// pair is two fetches of a page with what they are: the same, an honest pair of a dynamic page, or one that is forged.
type pair struct {
	label, way string
	host       string // pairs of a host teach it, in their order
	a, b       Fetch
}

// ways to forge a page.
var forgeries = []struct {
	name string
	do   func(rng *rand.Rand, f Fetch, other []byte) Fetch
}{
	{"another page", func(_ *rand.Rand, f Fetch, other []byte) Fetch { f.Body = other; return f }},
	{"link for profit", func(rng *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, "</p>", fmt.Sprintf(` <a href="https://casino%d.example/">play</a></p>`, rng.IntN(1000)))
	}},
	{"link led elsewhere", func(rng *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, `<a href="`, fmt.Sprintf(`<a href="https://affiliate%d.example/?u=`, rng.IntN(1000)))
	}},
	{"title", func(_ *rand.Rand, f Fetch, _ []byte) Fetch { return replaced(f, "</title>", " buy now</title>") }},
	{"sentence added", func(_ *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, "</p>", " The mayor was arrested on Tuesday for what he wrote.</p>")
	}},
	{"paragraph replaced", func(_ *rand.Rand, f Fetch, _ []byte) Fetch {
		f.Body = onePart(f.Body, "<p>", "</p>", "<p>Nothing of what was said here before is true, and the company is bankrupt since last week.")
		return f
	}},
	{"half cut off", func(_ *rand.Rand, f Fetch, _ []byte) Fetch { f.Body = f.Body[:len(f.Body)/2]; return f }},
	{"said to be gone", func(_ *rand.Rand, f Fetch, _ []byte) Fetch { f.Status, f.Body = 404, nil; return f }},
	{"said to redirect", func(_ *rand.Rand, f Fetch, _ []byte) Fetch { f.Final = "https://elsewhere.example/"; return f }},
	{"program of another host", func(rng *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, "<p>", fmt.Sprintf(`<script src="https://evil%d.example/x.js"></script><p>`, rng.IntN(1000)))
	}},
	{"program that leads elsewhere", func(rng *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, "</p>", fmt.Sprintf(`</p><script>location = "https://evil%d.example/"</script>`, rng.IntN(1000)))
	}},
	{"words stuffed in", func(_ *rand.Rand, f Fetch, _ []byte) Fetch {
		return replaced(f, "</main>", "<p>"+strings.Repeat("cheap pills online casino loans ", 60)+"</p></main>")
	}},
}

// noises make two fetches of a page differ, as servers do.
var noises = []struct {
	name string
	do   func(rng *rand.Rand, body []byte) []byte
}{
	{"nothing seen", func(rng *rand.Rand, b []byte) []byte {
		return before(b, "</body>", fmt.Sprintf("<script>nonce='%x'</script><form><input type=hidden value=%x></form>", rng.Uint64(), rng.Uint64()))
	}},
	{"counter", func(rng *rand.Rand, b []byte) []byte {
		return before(b, "</main>", fmt.Sprintf("<p>This page was read %d times.</p>", rng.IntN(1e6)))
	}},
	{"time of day", func(rng *rand.Rand, b []byte) []byte {
		return before(b, "</main>", fmt.Sprintf("<p>Served at %02d:%02d:%02d by server %d.</p>", rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(9)))
	}},
	{"sessions in links", func(rng *rand.Rand, b []byte) []byte {
		return before(b, "</main>", fmt.Sprintf(`<p><a href="/basket?sid=%x">basket</a></p>`, rng.Uint64()))
	}},
	{"others read too", func(rng *rand.Rand, b []byte) []byte {
		var list strings.Builder
		for range 3 {
			n := rng.IntN(12)
			fmt.Fprintf(&list, `<li><a href="/related-%d">Related article number %d about %s</a></li>`, n, n, []string{"rivers", "stones", "boats", "nets"}[n%4])
		}
		return before(b, "</main>", "<ul>"+list.String()+"</ul>")
	}},
	{"advertisement", func(rng *rand.Rand, b []byte) []byte {
		n := rng.IntN(40)
		return before(b, "</main>", fmt.Sprintf(`<div><a href="https://ads%d.example/click?%x">Offer %d of the day</a></div>`, n%4, rng.Uint64(), n))
	}},
}

func replaced(f Fetch, old, with string) Fetch {
	f.Body = bytes.Replace(f.Body, []byte(old), []byte(with), 1)
	return f
}

func before(b []byte, mark, add string) []byte {
	return bytes.Replace(b, []byte(mark), []byte(add+mark), 1)
}

func onePart(b []byte, from, to, with string) []byte {
	_, rest, _ := bytes.Cut(b, []byte(from))
	i := len(b) - len(rest) - len(from)
	j := bytes.Index(b[i:], []byte(to))
	return append(append(bytes.Clone(b[:i]), with...), b[i+j:]...)
}

// source gives whole pages with their URLs.
type source struct {
	url  string
	body []byte
}

// pondPages are pages of the pond.
func pondPages(t testing.TB, n int) (all []source) {
	w, err := pond.NewWorld(pond.Config{Seed: 7, Hosts: 20, Pages: 2000, MaxHost: 300, Start: time.Unix(1_800_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		host := i % 20
		page := i * 7 % w.Hosts()[host].Pages
		all = append(all, source{w.URL(host, page), w.AppendPage(nil, host, page, w.Version(host, page, time.Unix(1_800_050_000, 0)))})
	}
	return all
}

// crawledPages are pages made of a real crawl's URLs and links, where SHOAL_DATA names the data sets.
func crawledPages(t testing.TB, n int) (all []source) {
	dir := os.Getenv("SHOAL_DATA")
	f, err := os.Open(filepath.Join(dir, "graphs", "california.txt.gz"))
	if dir == "" || err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") != "" {
			t.Fatalf("SHOAL_DATA %q has no graphs/california.txt.gz: %v", dir, err)
		}
		t.Logf("without pages of a real crawl: SHOAL_DATA %q has no graphs/california.txt.gz", dir)
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	urls, links := map[string]string{}, map[string][]string{}
	var order []string
	for sc := bufio.NewScanner(z); sc.Scan(); {
		switch w := strings.Fields(sc.Text()); {
		case len(w) == 3 && w[0] == "n":
			urls[w[1]] = w[2]
		case len(w) == 3 && w[0] == "e":
			if links[w[1]] == nil {
				order = append(order, w[1])
			}
			links[w[1]] = append(links[w[1]], w[2])
		}
	}
	word := regexp.MustCompile(`[a-zA-Z]{3,}`)
	for _, id := range order {
		if len(all) == n {
			break
		}
		if len(links[id]) < 12 {
			continue
		}
		b := []byte("<html><head><title>" + strings.Join(word.FindAllString(urls[id], -1), " ") + "</title></head><body><main>")
		for i, to := range links[id] {
			words := word.FindAllString(urls[to], -1)
			b = fmt.Appendf(b, `<p>Entry %d tells of %s and of its neighbours: <a href="%s">%s</a>.</p>`+"\n", i, strings.Join(words, " "), urls[to], strings.Join(words, ", "))
		}
		all = append(all, source{urls[id], append(b, "</main></body></html>"...)})
	}
	return all
}

// pairs makes the labelled set: hosts that stay still, and hosts of each noise, with honest and forged pairs.
func pairs(t testing.TB) (all []pair) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, from := range []struct {
		name  string
		pages []source
	}{{"pond", pondPages(t, 120)}, {"crawl", crawledPages(t, 60)}} {
		name, pages := from.name, from.pages
		for i, s := range pages {
			f := Fetch{URL: s.url, Status: 200, Type: "text/html; charset=utf-8", Body: s.body}
			other := pages[(i+1)%len(pages)].body
			all = append(all, pair{"same", name, name + " still", f, f})
			forgery := forgeries[i%len(forgeries)]
			all = append(all, pair{"forged", forgery.name, name + " still", forgery.do(rng, f, other), f})
			noise := noises[i%len(noises)]
			host := name + " " + noise.name
			fetch := func() Fetch { g := f; g.Body = noise.do(rng, bytes.Clone(f.Body)); return g }
			label := "dynamic"
			if noise.name == "nothing seen" {
				label = "same"
			}
			all = append(all, pair{label, noise.name, host, fetch(), fetch()}, pair{label, noise.name, host, fetch(), fetch()})
			all = append(all, pair{"forged", forgery.name + ", dynamic", host, forgery.do(rng, fetch(), other), fetch()})
		}
	}
	return all
}

// learnFrom is how many honest pairs teach a host of dynamic pages before it is judged.
const learnFrom = 8

// What was measured, in thousandths: honest pairs of dynamic pages that are conflicts (the arbiter looks, and nobody loses), and forgeries of dynamic pages that
// are within what their host taught. Of still pages none is missed.
const (
	mostDynamicConflicts = 90
	mostMissed           = 128
)

// TestPairs prints what the comparison makes of the labelled pairs, and fails where it is worse than what was measured. The bounds are the measured figures.
func TestPairs(t *testing.T) {
	all := pairs(t)
	if len(all) < 500 {
		t.Fatalf("only %d pairs", len(all))
	}
	hosts := learnt(all)
	counts := map[[2]string]int{} // by label and verdict
	wrong, of := map[string]int{}, map[string]int{}
	for _, p := range all {
		h := hosts[p.host]
		v := h.Compare(Of(p.a), Of(p.b)).Verdict
		counts[[2]string{p.label, v.String()}]++
		of[p.label+": "+p.way]++
		if (v == Conflict) != (p.label == "forged") {
			wrong[p.label+": "+p.way]++
		}
	}
	t.Logf("%d pairs", len(all))
	for _, label := range []string{"same", "dynamic", "forged"} {
		t.Logf("%-8s same %4d, dynamic %4d, conflict %4d", label, counts[[2]string{label, "same"}], counts[[2]string{label, "dynamic"}], counts[[2]string{label, "conflict"}])
	}
	still, missed := 0, 0
	for way, n := range wrong {
		t.Logf("wrong: %s, %d of %d", way, n, of[way])
		switch {
		case strings.HasPrefix(way, "forged") && strings.HasSuffix(way, ", dynamic"):
			missed += n
		case strings.HasPrefix(way, "forged"):
			still += n
		}
	}
	if n := counts[[2]string{"same", "conflict"}] + counts[[2]string{"same", "dynamic"}]; n > 0 {
		t.Errorf("%d pairs of the same page are not the same", n)
	}
	dynamic := 0
	for _, v := range []Verdict{Same, Dynamic, Conflict} {
		dynamic += counts[[2]string{"dynamic", v.String()}]
	}
	if n := counts[[2]string{"dynamic", "conflict"}]; n*1000 > mostDynamicConflicts*dynamic {
		t.Errorf("%d honest pairs of %d of dynamic pages are conflicts", n, dynamic)
	}
	if still > 0 {
		t.Errorf("%d forgeries of still pages were not seen", still)
	}
	if forged := len(all) / 5; missed*1000 > mostMissed*forged {
		t.Errorf("%d forgeries of %d on dynamic pages were not seen", missed, forged)
	}
}

// learnt teaches each host by its first honest pairs.
func learnt(all []pair) map[string]Host {
	hosts, seen := map[string]Host{}, map[string]int{}
	for _, p := range all {
		if p.label == "forged" || seen[p.host] == learnFrom {
			continue
		}
		seen[p.host]++
		h := hosts[p.host]
		h.Learn(Of(p.a), Of(p.b))
		hosts[p.host] = h
	}
	return hosts
}
