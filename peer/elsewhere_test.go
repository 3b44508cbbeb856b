package peer

import (
	"errors"
	"testing"
)

// TestElsewhereAsksTheVolunteersRules has a site send a peer on to another host for its robots.txt: the volunteer's rules are asked, but not about hosts of a synthetic Web.
func TestElsewhereAsksTheVolunteersRules(t *testing.T) {
	denied := errors.New("this volunteer does not fetch denied.example")
	var asked []string
	a := &Agent{cfg: Config{Refuse: func(host string) error {
		if asked = append(asked, host); host == "https://denied.example" {
			return denied
		}
		return nil
	}}}
	for _, c := range []struct {
		host, to     string
		asked, fails bool
	}{
		{"https://a.example", "https://www.a.example", true, false},
		{"https://a.example", "https://denied.example", true, true},
		{"https://a.example", "http://site-1.pond.test:8080", false, true},
		{"http://site-2.pond.test", "http://site-1.pond.test", true, false},
	} {
		asked = nil
		if err := a.elsewhere(c.host)(c.to); (err != nil) != c.fails || (len(asked) == 1) != c.asked {
			t.Errorf("from %s to %s: %v, asked about %v", c.host, c.to, err, asked)
		}
	}
	if err := new(Agent).elsewhere("https://a.example")("https://b.example"); err != nil {
		t.Errorf("without rules: %v", err)
	}
}
