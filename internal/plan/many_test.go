package plan

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"shoal/recrawl"
)

// A plan of many channels looks at a bounded part of them where all would take minutes: at every n-th for the table of capacities, which comes
// out the same, and at a thousand of the histories that are unlike Poisson's, which the answer says. It tells how far it is.
func TestManyChannels(t *testing.T) {
	src := channels(2*sampleOver + 5000)
	rng := rand.New(rand.NewPCG(3, 3))
	odd := 3 * mostFits
	for i := range odd {
		src.All[i*10].History, src.All[i*10].Facts.Est = steady(rng, 600)
	}
	var mu sync.Mutex
	told := map[string]int{}
	progress := func(what string, done, of int) {
		mu.Lock()
		defer mu.Unlock()
		if done == of {
			told[what]++
		}
	}
	src.Progress = progress
	var out bytes.Buffer
	c := Command{JSON: true, Rows: 1, Threads: 5, Progress: progress}
	if err := c.Run(t.Context(), src, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Unfitted < odd/2 || r.Unfitted > odd-mostFits/2 || r.Models["poisson"] == src.Len() {
		t.Errorf("%d histories were not fitted, of %d that are unlike Poisson's; models %v", r.Unfitted, odd, r.Models)
	}
	for _, what := range []string{"update models", "capacities", "timetable"} {
		if told[what] == 0 {
			t.Errorf("it does not tell of its %s: %v", what, told)
		}
	}
	few, share := src.Sampled()
	if few.Len() > sampleOver || math.Abs(share*float64(src.Len())-float64(few.Len())) > 1e-6 {
		t.Errorf("%d of %d channels are a share of %g", few.Len(), src.Len(), share)
	}
	for i, f := range factors {
		whole, err := src.Buys(t.Context(), f*r.Now.Capacity)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Points[i]
		if math.Abs(got.Freshness-whole.Freshness) > .01 || math.Abs(got.Pages/whole.Pages-1) > .03 || got.Capacity != whole.Capacity {
			t.Errorf("by a part %+v, by all channels %+v", got, whole)
		}
	}
	out.Reset()
	if err := text(&out, r, 0); err != nil || !strings.Contains(out.String(), "--thorough") {
		t.Errorf("the answer does not say that channels were left out: %v\n%s", err, out.String())
	}
	src.Thorough = true
	if whole, share := src.Sampled(); whole != Source(src) || share != 1 {
		t.Error("--thorough leaves channels out")
	}
}

// steady is the history of a channel that changes at a fixed interval, which no Poisson process does.
func steady(rng *rand.Rand, every float64) ([]byte, recrawl.Estimate) {
	var h []byte
	est := recrawl.Prior(1440, .5)
	clock, next := 0., every
	for range 40 {
		gap := every * (.3 + .3*rng.Float64())
		clock += gap
		changed := clock > next
		for clock > next {
			next += every
		}
		h = recrawl.AppendVisit(h, gap, changed)
		est.Visit(gap, changed)
	}
	return h, est
}
