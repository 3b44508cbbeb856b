package manager

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"shoal/manager/conduct"
)

// keptBy is what managers keep of their states, by their names.
type keptBy map[string]map[string][]byte

func (k keptBy) KeptBy(_ context.Context, name string) (map[string][]byte, error) {
	return k[name], nil
}

// TestWhatGoneManagersHadNoticed reads what managers wrote down that have gone: counters, errors by kind, members to look at. What of it cannot be read is left out.
func TestWhatGoneManagersHadNoticed(t *testing.T) {
	shown, err := json.Marshal(remembered{Updates: 7, Errors: map[string]int64{"timeout": 3}})
	if err != nil {
		t.Fatal(err)
	}
	m := newMembers(time.Hour)
	m.Deed(time.Now(), "bad peer", "", conduct.Gone, 100)
	noticed, err := m.state(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got, err := CountedBy(t.Context(), keptBy{stateShown: {"a": shown, "b": []byte("torn")}, stateConduct: {"a": noticed, "b": []byte("torn"), "c": noticed}})
	if err != nil || len(got) != 2 || got["a"].Updates != 7 || got["a"].Errors["timeout"] != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, node := range []string{"a", "c"} {
		if o := got[node]; o.AllSuspects != 1 || len(o.Suspects) != 1 || o.Suspects[0].Peer != "bad peer" || o.Suspects[0].Counts[conduct.Gone] != 100 {
			t.Errorf("members that %s noticed: %+v", node, o.Suspects)
		}
	}
}
