package recrawl

import (
	"fmt"
	"math"
	"testing"

	"shoal/recrawl/allocate"
)

// Stored histories are foreign bytes once they come from a database.
func FuzzChoose(f *testing.F) {
	f.Add([]byte{}, 1440.)
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef"), 60.)
	f.Add(make([]byte, 128), 0.)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), math.Inf(1))
	f.Fuzz(func(t *testing.T, history []byte, day float64) {
		facts := Facts{Est: Exactly(100), Updated: 1000}
		c := Choose(history, &facts, day)
		if c.Other {
			if v := c.Model.Staleness(0, 50); c.Model.Kind() != allocate.QuasiKind && !(v >= 0 && v <= 1) { // instants have an interval of their own
				t.Fatalf("%v: staleness %g", c.Model, v)
			}
		}
		ChooseFast(history, &facts, day)
		if next := AppendVisit(history[:len(history)/2*2], 7, true); len(next) > 2*visitsKept && len(history) <= 2*visitsKept {
			t.Fatalf("%d bytes of history", len(next))
		}
		st := newOptimal(Params{})
		st.Recall(3, &facts, history, c)
		st.Explain(3, &facts, ticks)
	})
}

// ticks is a Span that says ticks.
func ticks(n float64) string { return fmt.Sprintf("%.4g ticks", n) }
