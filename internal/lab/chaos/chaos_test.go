package chaos

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func cast() Cast {
	return Cast{Peers: 5, Hosts: 20, Strategies: []string{"icr", "price"}, Rogues: []string{"swallow", "stall"}, Liars: []string{"lazy", "subtle"}, Lies: []string{"hang"},
		Steps: []string{"+1h", "-40s"}, Delays: []string{"80ms"}, Length: 10 * time.Minute, Every: 2 * time.Second, Longest: 20 * time.Second}
}

func draw(t *testing.T, seed uint64) Script {
	t.Helper()
	s, err := Draw(seed, cast())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDrawHoldsItsBounds(t *testing.T) {
	c := cast()
	for seed := range uint64(50) {
		s := draw(t, seed)
		if !reflect.DeepEqual(s, draw(t, seed)) {
			t.Fatalf("seed %d gives two scripts", seed)
		}
		if n := len(s.Faults); n < 150 || n > 400 {
			t.Errorf("seed %d: %d faults, want about 300 or what is left of them", seed, n)
		}
		if n := s.Count(); len(n) != len(Kinds()) {
			t.Errorf("seed %d: only %v", seed, n)
		}
		overlap, end := false, time.Duration(0)
		for i, f := range s.Faults {
			if i > 0 && f.At < s.Faults[i-1].At {
				t.Errorf("seed %d: %v after %v", seed, f, s.Faults[i-1])
			}
			if f.End() > c.Length || f.For > c.Longest || f.At%time.Millisecond != 0 || f.For%time.Millisecond != 0 {
				t.Errorf("seed %d: %v", seed, f)
			}
			w, _ := find(f.Kind)
			if w.peer && f.Target >= c.Peers || w.host && f.Target >= c.Hosts || (w.named != nil) != (f.Name != "") || w.lasting != (f.For > 0) {
				t.Errorf("seed %d: %v", seed, f)
			}
			overlap = overlap || f.At < end
			end = max(end, f.End())
		}
		if !overlap || end != s.Last() {
			t.Errorf("seed %d: no two faults overlap, or the last one ends at %v and not at %v", seed, end, s.Last())
		}
	}
	if reflect.DeepEqual(draw(t, 1).Faults, draw(t, 2).Faults) {
		t.Error("two seeds give one script")
	}
}

// A process that is stopped is not killed meanwhile, and a blocked host is not blocked again.
func TestTargetsAreFreeOfOtherFaults(t *testing.T) {
	for seed := range uint64(50) {
		until := map[string]time.Duration{}
		for _, f := range draw(t, seed).Faults {
			on := "manager"
			switch w, _ := find(f.Kind); {
			case w.on == onClock:
				on = "clock of " + string(rune('0'+f.Target)) + " of peers: " + fmt.Sprint(w.peer)
			case w.peer:
				on = "peer " + string(rune('0'+f.Target))
			case w.host:
				on = "host " + string(rune('0'+f.Target))
			case w.on == onMembers:
				continue
			case w.on == onNames:
				on = "names"
			case w.on == onList:
				on = "list"
			}
			if end, ok := until[on]; ok && f.At <= end {
				t.Fatalf("seed %d: %v is at work on the %s until %v", seed, f, on, end)
			}
			until[on] = f.End()
		}
	}
}

func TestCastsThatAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Cast){
		"no peers":      func(c *Cast) { c.Peers = 0 },
		"no hosts":      func(c *Cast) { c.Hosts = 0 },
		"no strategies": func(c *Cast) { c.Strategies = nil },
		"no rogues":     func(c *Cast) { c.Rogues = nil },
		"no liars":      func(c *Cast) { c.Liars = nil },
		"no lies":       func(c *Cast) { c.Lies = nil },
		"no steps":      func(c *Cast) { c.Steps = nil },
		"no time":       func(c *Cast) { c.Delays = []string{"soon"} },
		"two words":     func(c *Cast) { c.Strategies = []string{"a b"} },
		"a comment":     func(c *Cast) { c.Strategies = []string{"a#b"} },
		"too many":      func(c *Cast) { c.Every = time.Millisecond },
		"no pause":      func(c *Cast) { c.Every = 0 },
		"too long":      func(c *Cast) { c.Longest = c.Length + 1 },
	} {
		c := cast()
		spoil(&c)
		if _, err := Draw(1, c); !errors.Is(err, ErrCast) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextIsReadBack(t *testing.T) {
	for seed := range uint64(20) {
		s := draw(t, seed)
		got, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%v\n%s", err, s)
		}
	}
	got, err := Parse("# a failure\n\nseed 9\n3s compact\n1.5s kill-peer 3 for 4s # first\n2s strategy price\n")
	want := Script{9, []Fault{{At: 1500 * time.Millisecond, Kind: KillPeer, Target: 3, For: 4 * time.Second}, {At: 2 * time.Second, Kind: Strategy, Name: "price"},
		{At: 3 * time.Second, Kind: Compact}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTextThatIsRefused(t *testing.T) {
	for _, text := range []string{"", "seed", "seed x", "seed -1", "1s compact", "seed 1\n1s", "seed 1\n1s explode", "seed 1\n-1s compact", "seed 1\n1 compact",
		"seed 1\n1us compact", "seed 1\n1s kill-peer", "seed 1\n1s kill-peer x for 1s", "seed 1\n1s kill-peer -1 for 1s", "seed 1\n1s kill-peer 1", "seed 1\n1s kill-peer 1 for",
		"seed 1\n1s kill-peer 1 for ever", "seed 1\n1s strategy", "seed 1\n1s step-peer 1 for 2s", "seed 1\n1s compact now", "seed 1\n99999h compact"} {
		if s, err := Parse(text); !errors.Is(err, ErrText) {
			t.Errorf("%q is taken as %v, %v", text, s, err)
		}
	}
	if _, err := Parse(strings.Repeat("\n", MaxText+1)); !errors.Is(err, ErrText) {
		t.Errorf("too long: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("seed 1\n1s compact\n")
	f.Add("seed 7\n1.2s kill-peer 3 for 4s\n2s strategy price\n3s block 1 for 0s")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(s.String()); err != nil || !slices.Equal(again.Faults, s.Faults) || again.Seed != s.Seed {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	})
}

func TestShrinkKeepsWhatIsNeeded(t *testing.T) {
	for seed := range uint64(20) {
		s := draw(t, seed)
		a, b := s.Faults[len(s.Faults)/3], s.Faults[len(s.Faults)*3/4]
		asked := 0
		got := Shrink(s, 1000, func(s Script) bool {
			asked++
			return slices.Contains(s.Faults, a) && slices.Contains(s.Faults, b)
		})
		if !slices.Equal(got.Faults, []Fault{a, b}) || got.Seed != s.Seed {
			t.Errorf("seed %d: %d faults of %d are left after %d tries, want 2:\n%v", seed, len(got.Faults), len(s.Faults), asked, got)
		}
	}
}

func TestShrinkAsksNoMoreThanItMay(t *testing.T) {
	s := draw(t, 3)
	before := slices.Clone(s.Faults)
	last := s
	for tries := range 20 {
		asked := 0
		last = Shrink(s, tries, func(s Script) bool { asked++; return slices.Contains(s.Faults, before[5]) })
		if asked > tries || !slices.Contains(last.Faults, before[5]) {
			t.Fatalf("%d tries: asked %d times, and %d faults are left", tries, asked, len(last.Faults))
		}
	}
	if len(last.Faults) >= len(before) || !slices.Equal(s.Faults, before) {
		t.Errorf("%d of %d faults are left, or the script itself was changed", len(last.Faults), len(before))
	}
}

// A network that fails without any fault needs none.
func TestShrinkToNothing(t *testing.T) {
	if got := Shrink(draw(t, 1), 100, func(Script) bool { return true }); len(got.Faults) != 0 {
		t.Errorf("%d faults are left", len(got.Faults))
	}
	s := draw(t, 1)
	if got := Shrink(s, 5000, func(Script) bool { return false }); !slices.Equal(got.Faults, s.Faults) {
		t.Errorf("%d of %d faults are left of a script that does not fail", len(got.Faults), len(s.Faults))
	}
}
