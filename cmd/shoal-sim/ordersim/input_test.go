package ordersim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/channel/order"
)

// TestNumbersAreNamedWithFlags: settings that cannot be used are named as the command line has them, with their ranges.
func TestNumbersAreNamedWithFlags(t *testing.T) {
	for want, change := range map[string]func(c *Cmd){
		"--absent 2: want a share above 0 and below 1, or 0 for 0.45":           func(c *Cmd) { c.Absent = 2 },
		"--held 1 with --absent 0.45: want --held above 0, at most --absent":    func(c *Cmd) { c.Absent, c.Held = 0, 1 },
		"--weekly 1: want a share above 0 and below 1, or 0 for 0.25":           func(c *Cmd) { c.Weekly = 1 },
		"--weeks -1: want more than 0, or 0 for 17":                             func(c *Cmd) { c.Weeks = -1 },
		"--site-pages -1: want 1 or more, or 0 for 100":                         func(c *Cmd) { c.SitePages = -1 },
		"--seeds -1: want a share above 0, at most 1, or 0 for 0.1":             func(c *Cmd) { c.Seeds = -1 },
		"--ordering: opic is named twice":                                       func(c *Cmd) { c.Ordering = []string{"opic", "random", "opic"} },
		"want --synthetic of at most " + fmt.Sprint(order.MaxPages) + ", --sit": func(c *Cmd) { c.Graph, c.Synthetic, c.Links = nil, 100, .5 },
	} {
		c := flags()
		c.Graph = []string{graphFile(t, "0 1\n1 2\n2 0\n")}
		change(&c)
		if _, err := run(t, c); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func graphFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "graph")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPagesAreNamedInOneWay: a file that names pages now by numbers, now by URLs is refused with the line at which it changes.
func TestPagesAreNamedInOneWay(t *testing.T) {
	for text, want := range map[string]string{
		"0 1\n\nhttp://a/ http://b/\n":    "line 3: a page by its URL, where line 1 has one by its number",
		"http://a/ http://b/\n0 1\n":      "line 2: a page by its number, where line 1 has one by its URL",
		"0 http://a/\n":                   "line 1: a page by its URL",
		"n 0 http://a/\nhttp://a/ http:/": "line 2: a page by its URL",
		"http://a/ http://b/\nn 0 x://c/": "line 2: a page by its number",
	} {
		if _, err := Load("mixed", strings.NewReader(text), LoadConfig{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestMarkBeforeGraph: a byte order mark before a graph is no part of its first page.
func TestMarkBeforeGraph(t *testing.T) {
	for _, text := range []string{"0 1\n1 0\n", "http://a/ http://b/\n", "# none\n0 1\n", "n 0 http://a/\nn 1 http://b/\ne 0 1\n"} {
		w, err := Load("marked", strings.NewReader("\ufeff"+text), LoadConfig{})
		if err != nil || w.Graph.Pages() != 2 || w.URLs != nil && strings.Contains(w.URLs[0], "\ufeff") {
			t.Errorf("%q: %d pages, %v, %v", text, w.Graph.Pages(), w.URLs, err)
		}
	}
}

// TestPreviousOfOtherNumbers: an earlier crawl whose links are among other numbers says nothing of the graph, though a crawl may begin at pages of those
// numbers, too. Only historical orderings need one.
func TestPreviousOfOtherNumbers(t *testing.T) {
	ring := func(from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d %d\n", from+i, from+(i+1)%n)
		}
		return graphFile(t, b.String())
	}
	c := flags()
	c.Seeds, c.SitePages = 1, 10
	c.Graph, c.Previous = []string{ring(1000, 100)}, ring(0, 500)
	if out, err := run(t, c); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "shares no page") {
		t.Errorf("%v\n%s", err, out)
	}
	c.Ordering = []string{order.OPIC}
	if _, err := run(t, c); err != nil {
		t.Errorf("without a historical ordering: %v", err)
	}
	c.Ordering, c.Previous = []string{order.HistoricalZero}, c.Graph[0]
	if _, err := run(t, c); err != nil {
		t.Errorf("the same graph: %v", err)
	}
	c.Seeds = .001 // page 0 alone, which no link leaves
	if _, err := run(t, c); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "nothing to order") {
		t.Errorf("seeds that reach no link: %v", err)
	}
}
