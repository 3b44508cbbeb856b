package main

import (
	"strings"
	"testing"
	"time"

	"shoal/internal/wire"
	"shoal/peer"
)

// TestOverlayStatus checks the report of a peer's place and connections: young, settled in the network, behind a
// router, cut off.
func TestOverlayStatus(t *testing.T) {
	known := peer.Status{Rings: []int{1, 0, 3, 0, 0, 0, 0, 0, 2}, MessagesMin: 1.94, PacketsMin: 104.4, RatesOver: 300}
	known.Coord.Vec[0], known.Coord.Height, known.Coord.Err = -12.34, 1.5, .25
	known.Reach = wire.Reach{NAT: wire.NATNone, Direct: 8}
	behind, off, young := known, known, known
	behind.Reach = wire.Reach{NAT: wire.NATCone, Relays: []string{"/p2p/x/p2p-circuit"}, Direct: 1, Relayed: 2}
	off.Reach = wire.Reach{NAT: wire.NATNone}
	young.RatesOver = 4
	silent := known
	silent.Home = wire.Home{At: "12D3", Silent: time.Date(2026, 3, 1, 12, 30, 5, 0, time.Local)}
	for what, c := range map[string]struct {
		of   peer.Status
		says []string
	}{
		"known": {known, []string{"place     -12.3 0.0 ", "height 1.5 ms; a predicted time is wrong by about 25% (error 0.25)", "rings     1 below 2 ms, 3 below 8 ms, 2 from 256 ms on\n",
			"reached   directly; NAT: none; 8 connections direct, 0 by relay\n", "messages  1.9 a minute, 104 packets a minute\n"}},
		"behind a router": {behind, []string{"reached   through its home; NAT: address translation, same port; 1 connection direct, 2 by relay\n"}},
		"cut off":         {off, []string{"reached   by no member now: none is connected; NAT when last seen: none\n"}},
		"a pulled cable":  {silent, []string{"reached   not known: the company's server is connected, and has not answered since 12:30:05; NAT when last seen: none\n"}},
		"young":           {young, []string{"104 packets a minute, over its first 4 s\n"}},
	} {
		var b strings.Builder
		printOverlay(&b, &c.of)
		for _, line := range c.says {
			if !strings.Contains(b.String(), line) {
				t.Errorf("%s: no %q in\n%s", what, line, b.String())
			}
		}
	}
}
