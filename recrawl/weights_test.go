package recrawl

import "testing"

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		by            Weights
		pages, mean   float32
		group, groups int
		want          float32
	}{
		{EqualWeights, 9, 3, 0, 5, 1}, {PageWeights, 9, 3, 0, 5, 3}, {PageWeights, 0, 3, 0, 5, 1}, {PageWeights, 9, 0, 0, 5, 1},
		{RankWeights, 9, 3, 0, 5, 16}, {RankWeights, 9, 3, 4, 5, 1}, {RankWeights, 9, 3, 0, 1, 1},
	} {
		if got := c.by.Of(c.pages, c.mean, c.group, c.groups); got != c.want || c.by.Validate() != nil {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if Weights("heavy").Validate() == nil || Weights("").Validate() == nil {
		t.Error("anything is weights")
	}
}

// A heavier channel goes first from the moment that it is weighed.
func TestWeigh(t *testing.T) {
	p, err := New("price", Params{})
	if err != nil {
		t.Fatal(err)
	}
	s := NewScheduler(0, p, DefaultOptions())
	var slots []Slot
	for range 3 {
		slots = append(slots, s.Add(Facts{Est: Exactly(100), Flags: Known}))
	}
	s.Weigh(slots[2], 7)
	first := -1
	s.Next(1, Load{Room: 1}, func(at Slot) (Tick, bool) {
		if first < 0 {
			first = int(at)
		}
		return 0, true
	})
	if first != int(slots[2]) {
		t.Errorf("first is %d, not the heaviest of %v", first, slots)
	}
}
