package desk

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// TestTallyOfVeryMany counts by and by, and tells what it knows before it has seen all.
func TestTallyOfVeryMany(t *testing.T) {
	const all = 2*batch + 200
	broken := false
	list := func(_ context.Context, after channel.ID, n int) (out []channel.Channel, err error) {
		if broken {
			return nil, errors.New("the disk is gone")
		}
		for id := after + 1; id <= all && len(out) < n; id++ {
			ch := channel.Channel{ID: id, State: channel.Active}
			if id%100 == 0 {
				ch.State = channel.Removed
			}
			out = append(out, ch)
		}
		return out, nil
	}
	rowsOf := func(_ context.Context, chs []channel.Channel) (out []Row, err error) {
		for i := range chs {
			state := Active
			if chs[i].ID%10 == 1 {
				state = Failing
			}
			out = append(out, Row{State: state})
		}
		return out, nil
	}
	var k tallies
	step := func() (Tally, int) {
		got, looked, err := k.count(t.Context(), 1, list, rowsOf) // a nanosecond: one batch
		if err != nil {
			t.Fatal(err)
		}
		return got, looked
	}
	for i := 1; i <= 2; i++ {
		if got, looked := step(); looked != i*batch*99/100 || got[Failing] != i*batch/10 {
			t.Errorf("call %d: %v of %d", i, got, looked)
		}
	}
	broken = true
	if _, _, err := k.count(t.Context(), 1, list, rowsOf); err == nil {
		t.Error("a database that cannot be read is not told of")
	}
	broken = false
	if got, looked := step(); looked != all*99/100 || got[Failing] != all/10 {
		t.Errorf("the last batch: %v of %d", got, looked)
	}
	if got, looked := step(); looked != 0 || got[Failing] != all/10 || got[Active] != all*99/100-all/10 {
		t.Errorf("the whole: %v, %d", got, looked)
	}
	k.next = time.Time{} // old enough to be taken anew: meanwhile the last one stands
	if got, looked := step(); looked != 0 || got[Failing] != all/10 {
		t.Errorf("anew: %v, %d", got, looked)
	}
}

// TestPartlyTallied says of how many channels a part of a tally is.
func TestPartlyTallied(t *testing.T) {
	found := tallied(Tally{Failing: 3, GivenUp: 1}, 250_000)
	if len(found) != 2 || found[0].What != "1 channel is given up after too many failures, among the first 250000 channels; the others are still being looked at." ||
		!strings.HasPrefix(found[1].What, "3 channels are failing: tried again by and by, among the first 250000 channels;") {
		t.Errorf("%+v", found)
	}
	if found := tallied(Tally{Blocked: 1, Active: 1}, 0); len(found) != 1 || found[0].What != "1 channel is on blocked hosts, and not crawled." {
		t.Errorf("%+v", found)
	}
}
