package desk

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/internal/release"
)

// keeper is a shelf with one release.
type keeper struct{ book *release.Book }

func (k keeper) Signed() ([]Release, time.Time, error) {
	return []Release{{Version: "v1.1.0", Systems: []string{"linux-amd64"}}}, time.Unix(2e9, 0), nil
}
func (k keeper) Summary() release.Summary { return k.book.Summary(time.Unix(1e9, 0)) }
func (k keeper) Stop(why string) error    { k.book.Stop(why); return nil }
func (k keeper) Roll(version string, share int, again bool) error {
	return k.book.Roll(time.Unix(1e9, 0), version, share, again)
}

// TestShelf rolls a release out and stops it. It refuses what is not signed, what is no share, and a stopped one unless the operator insists.
func TestShelf(t *testing.T) {
	if _, err := (&Desk{}).Shelf().Releases(); !errors.Is(err, ErrStopped) {
		t.Error("a stopped manager:", err)
	}
	for text, want := range map[string]int{"1%": 100, "10%": 1000, "50 %": 5000, "100%": release.Whole, "0.5%": 50, "0%": 0} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "-1%", "101%", "NaN%", "x%", "0.001%"} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
	s := Shelf{&Desk{m: struct{ Running }{}, cfg: Config{Releases: keeper{release.NewBook(release.Rollout{}, nil)}}}}
	if _, err := s.StopRollout(); !errors.Is(err, ErrAsk) {
		t.Error("nothing to stop:", err)
	}
	for _, bad := range []RolloutAsk{{Version: "v1.2.0", Share: "1%"}, {Version: "devel", Share: "1%"}, {Version: "v1.1.0", Share: "all"}} {
		if _, err := s.Roll(bad); !errors.Is(err, ErrAsk) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if r, err := s.Roll(RolloutAsk{Version: "1.1.0", Share: "10%"}); err != nil || r.Rollout.Version != "v1.1.0" || r.ShareShown != "10%" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := s.StopRollout(); err != nil || r.Rollout.Stopped == "" {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := s.Roll(RolloutAsk{Version: "v1.1.0", Share: "50%"}); !errors.Is(err, ErrAsk) || !strings.Contains(err.Error(), "has stopped") {
		t.Error(err)
	}
	if r, err := s.Roll(RolloutAsk{Version: "v1.1.0", Share: "50%", Again: true}); err != nil || r.Rollout.Stopped != "" || r.ShareShown != "50%" {
		t.Errorf("%+v %v", r, err)
	}
}
