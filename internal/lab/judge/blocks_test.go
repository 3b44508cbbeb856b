package judge

import (
	"strings"
	"testing"
	"time"
)

// TestBlocks has a manager that was killed, and is there again, say which hosts are blocked.
func TestBlocks(t *testing.T) {
	const h0 = "http://h0.test"
	for name, c := range map[string]struct {
		orders func(*Judge) error
		is     string // blocked
		want   Kind
	}{
		"nobody asked for it":          {nil, h0, Barred},
		"it misbehaves":                {nil, "http://h2.test", ""},
		"it has another name":          {nil, "http://h1.test", ""},
		"that other name":              {nil, "http://alias.test", Barred},
		"the pond does not know it":    {nil, "http://other.test", ""},
		"it was asked for":             {func(j *Judge) error { return j.Blocking(h0, at(1)) }, h0, ""},
		"and acknowledged":             {func(j *Judge) error { return j.Blocked(h0, at(1)) }, h0, ""},
		"its end was asked for":        {func(j *Judge) error { _ = j.Blocked(h0, at(1)); return j.Unblocked(h0, at(100)) }, h0, ""},
		"and acknowledged, too":        {func(j *Judge) error { return lift(j, at(1), at(100)) }, h0, Forgotten},
		"it is, as it should be":       {func(j *Judge) error { return lift(j, at(1), at(100)) }, "", ""},
		"it was asked for again":       {func(j *Judge) error { _ = lift(j, at(1), at(100)); return j.Blocking(h0, at(200)) }, h0, ""},
		"a request may be done late":   {func(j *Judge) error { _ = j.Blocking(h0, at(95)); return end(j, at(100)) }, h0, ""},
		"but not as late as that":      {func(j *Judge) error { _ = j.Blocking(h0, at(85)); return end(j, at(100)) }, h0, Forgotten},
		"a second word is no new one":  {func(j *Judge) error { _ = lift(j, at(1), at(100)); return end(j, at(300)) }, h0, Forgotten},
		"an end that was not answered": {func(j *Judge) error { _ = lift(j, at(1), at(100)); _ = j.Unblocked(h0, at(200)); return nil }, h0, Forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			f := honest()
			j := judgeOf(t, f)
			if c.orders != nil {
				if err := c.orders(j); err != nil {
					t.Fatal(err)
				}
			}
			if c.is != "" {
				f.blocked = []string{c.is}
			}
			if err := j.Blocks(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := j.Breaches()
			if c.want == "" && len(b) != 0 || c.want != "" && (len(b) != 1 || b[0].Kind != c.want || !strings.Contains(b[0].What, "test is blocked, ")) {
				t.Errorf("%v, want %q", b, c.want)
			}
		})
	}
}

// lift has the operator block the first host and lift that, which the manager acknowledges.
func lift(j *Judge, from, to time.Time) error {
	if err := j.Blocked("h0.test", from); err != nil {
		return err
	}
	return end(j, to)
}

func end(j *Judge, to time.Time) error {
	_ = j.Unblocked("h0.test", to) // it may not be blocked
	return j.Lifted("h0.test")
}

// TestBehindABlock has channels whose hosts the manager has blocked: of one that behaves that is no excuse, unless an operator has asked for it.
func TestBehindABlock(t *testing.T) {
	f := honest()
	f.rows[0].State = "blocked"
	j := judgeOf(t, f)
	behind, err := j.Behind(t.Context(), at(100))
	if err != nil || len(behind) != 0 {
		t.Errorf("crawled since: %v, %v", behind, err)
	}
	behind, err = j.Behind(t.Context(), at(140))
	if err != nil || len(behind) != 2 || !strings.Contains(behind[0], "is blocked, which nobody has asked for, out") {
		t.Errorf("%v, %v", behind, err)
	}
	block(j, at(120), time.Time{})
	if behind, err = j.Behind(t.Context(), at(140)); err != nil || len(behind) != 1 || strings.Contains(behind[0], "h0.test") {
		t.Errorf("blocked by an operator: %v, %v", behind, err)
	}
	if j.Lifted("h1.test") == nil || j.Lifted("other.test") == nil || j.Blocking("other.test", at(1)) == nil {
		t.Error("an order about a host that is none")
	}
}

// TestToldOfAnEnd: what the runtime says when it ends a program tells a person nothing.
func TestToldOfAnEnd(t *testing.T) {
	j := judgeOf(t, honest())
	if j.Told("manager", "fatal error: concurrent map writes"); len(j.Breaches()) != 1 || j.Breaches()[0].Kind != Mute {
		t.Errorf("%v", j.Breaches())
	}
}
