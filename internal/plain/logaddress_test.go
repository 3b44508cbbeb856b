package plain

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// No way of logging an address writes it whole.
func TestLogsCutAddresses(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(CutAddresses(slog.NewTextHandler(&out, nil))).With("from", "81.2.69.142:4001")
	log.Info("dial 81.2.69.142 failed", "addr", "/ip4/81.2.69.142/tcp/4001/p2p/12D3KooW", "six", "[2a01:4f8:c0c:1::beef]:443", "err", errors.New("read tcp 81.2.69.142:5: reset"),
		"is", netip.MustParseAddr("2a01:4f8:c0c:1::beef"), slog.Group("g", "a", "/ip6/2a01:4f8:c0c:1::beef/tcp/1"), "list", []string{"81.2.69.142"})
	log.WithGroup("more").Warn("x", "v4in6", "::ffff:81.2.69.142")
	s := out.String()
	if strings.Contains(s, "69.142") || strings.Contains(s, "beef") {
		t.Errorf("an address is in the log:\n%s", s)
	}
	for _, want := range []string{"81.2.69.0/24", "2a01:4f8:c0c::/48", "tcp/4001", "reset"} {
		if !strings.Contains(s, want) {
			t.Errorf("%s is missing:\n%s", want, s)
		}
	}
}

func TestLogsKeepTheRest(t *testing.T) {
	for _, s := range []string{"", "gen 5", "127.0.0.1:7780", "12:30:45", "2026-11-22T10:00:00Z", "1.2.3", "sha256:abcd", "took 3m2s", "::", "[::1]:80"} {
		if got := cutText(s); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}
