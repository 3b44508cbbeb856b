package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"shoal/channel"
)

// TestPlainly: errors on the page keep their words, and have no characters that steer a terminal or a reader.
func TestPlainly(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w: 999", channel.ErrUnknown):                        "no such channel: 999",
		errors.New("manager: cannot do that: nothing is known of a\x1b"): `cannot do that: nothing is known of a\x1b`,
		errors.New("listing: bad line: no url"):                          "bad line: no url",
	} {
		if got := plainly(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNoControlsOnPages: what volunteers, sites and operators wrote is shown, and steers nothing.
func TestNoControlsOnPages(t *testing.T) {
	f, s := start(t, true)
	f.blocked["b.example"] = "a\x1b[31m\u202eb\u0085"
	_, body := ask(t, "GET", s.URL+"/hosts?q="+url.QueryEscape("\x1b]0;x\a"), token)
	_, more := ask(t, "GET", s.URL+"/hosts", token)
	if !strings.Contains(more, "[31m") || strings.ContainsFunc(body+more, func(r rune) bool { return visible(r) != r }) {
		t.Errorf("%q", body+more)
	}
}
