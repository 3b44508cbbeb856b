package crawl

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"shoal/internal/lab/processor"
)

// Processor time of reading a page, in that of x/net/html's tokenizer on the same page.
const (
	oldBeside  = 0.81            // with the lexer that was here before (decision 0022): the least of its runs, by this test
	mostBeside = 1.1 * oldBeside // the most that it may be now
)

// TestPageBesideTokenizer reads real pages, and by turns has x/net/html's tokenizer do no more than cut them into tokens: `make bench-page`.
func TestPageBesideTokenizer(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("SHOAL_BENCH_PAGE"))
	if rounds < 1 {
		t.Skip("SHOAL_BENCH_PAGE is not set to a number of rounds: see `make bench-page`")
	}
	pages := pagesIn(t, os.Getenv("SHOAL_PAGES"))
	var p page
	once := func(read func(text []byte)) time.Duration {
		before := processor.Time(t)
		for _, text := range pages {
			read(text)
		}
		return (processor.Time(t) - before) / time.Duration(len(pages))
	}
	ours := func(text []byte) { p.read("http://site.test/d/", text, "text/html", "shoal", false) }
	once(ours)
	once(tokensOnly)
	var read, cut []time.Duration
	var ratios []float64
	for range rounds {
		r, c := once(ours), once(tokensOnly)
		read, cut, ratios = append(read, r), append(cut, c), append(ratios, float64(r)/float64(c))
	}
	slices.Sort(read)
	slices.Sort(cut)
	slices.Sort(ratios)
	fmt.Printf("%d pages, medians of %d rounds: reading %v of a processor, x/net's tokens alone %v, %.2f times that (at most %.2f)\n", len(pages), rounds,
		read[rounds/2].Round(time.Microsecond), cut[rounds/2].Round(time.Microsecond), ratios[rounds/2], mostBeside)
	if ratios[rounds/2] > mostBeside {
		t.Errorf("reading a page takes %.2f times the processor of x/net's tokens, at most %.2f", ratios[rounds/2], mostBeside)
	}
}
