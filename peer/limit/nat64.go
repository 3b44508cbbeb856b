package limit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// A network that has no IPv4 may translate IPv6 addresses to IPv4 ones, under a prefix of its own (RFC 6052). An address of the volunteer's network can
// be written so, too. The name servers tell the prefix (RFC 7050): each network's their own.

const (
	maxNAT64    = 8
	nat64Looks  = 15 * time.Second // between two looks whether the network has changed
	nat64Again  = time.Minute      // after name servers did not answer
	nat64Anyway = 6 * time.Hour    // a network may change its prefix
	nat64Wait   = 10 * time.Second // for an answer
)

// NAT64 sets the prefixes under which the network translates IPv6 addresses to IPv4 ones, in place of those known before.
func (h *Home) NAT64(prefixes ...netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nat64 = nil
	for _, p := range prefixes {
		if len(h.nat64) < maxNAT64 && embeddedAt(p.Bits()) {
			h.nat64 = append(h.nat64, p.Masked())
		}
	}
}

// WatchNAT64 learns the prefixes, again whenever this computer's addresses or networks have changed, until ctx ends. Until the name servers of a new
// network have answered, the prefixes of the old one stay. look, which may be nil, says whether name servers are to be asked now at all; tell, which
// may be nil, is told of questions without an answer.
func (h *Home) WatchNAT64(ctx context.Context, ask func(ctx context.Context, host string) ([]netip.Addr, error), look func() bool, tell func(error)) {
	t := time.NewTicker(nat64Looks)
	defer t.Stop()
	known, due := -1, time.Time{}
	for {
		if now, changes := time.Now(), h.Changes(); (changes != known || !now.Before(due)) && (look == nil || look()) {
			known, due = changes, now.Add(nat64Anyway)
			asking, cancel := context.WithTimeout(ctx, nat64Wait)
			err := h.LearnNAT64(func(host string) ([]netip.Addr, error) { return ask(asking, host) })
			cancel()
			if err != nil && ctx.Err() == nil {
				due = now.Add(nat64Again)
				if tell != nil {
					tell(err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// LearnNAT64 asks the name servers whether they answer with translated addresses (RFC 7050), and keeps the prefixes that they use: none, if they know
// no such address.
func (h *Home) LearnNAT64(ask func(host string) ([]netip.Addr, error)) error {
	addrs, err := ask("ipv4only.arpa")
	if missing := (*net.DNSError)(nil); err != nil && !(errors.As(err, &missing) && missing.IsNotFound) {
		return err
	}
	var found []netip.Prefix
	for _, a := range addrs {
		if !a.Is6() || a.Is4In6() {
			continue
		}
		for _, bits := range []int{96, 64, 56, 48, 40, 32} {
			if four := translated(a.As16(), bits); four == onlyIPv4[0] || four == onlyIPv4[1] {
				found = append(found, netip.PrefixFrom(a, bits).Masked())
				break
			}
		}
	}
	h.NAT64(found...)
	return nil
}

// onlyIPv4 are the addresses of ipv4only.arpa (RFC 7050, section 8.2).
var onlyIPv4 = [2]netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}

// embedded are the IPv4 addresses that an IPv6 address may lead to through a translator or tunnel.
func (h *Home) embedded(addr netip.Addr) (out []netip.Addr) {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case b[0] == 0x20 && b[1] == 0x02: // 6to4 (RFC 3056)
		out = append(out, netip.AddrFrom4([4]byte(b[2:6])))
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0: // Teredo (RFC 4380)
		out = append(out, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	case wellKnownNAT64.Contains(addr):
		out = append(out, last)
	}
	if (b[8]&^3 == 0) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP (RFC 5214), under any prefix
		out = append(out, last)
	}
	for _, p := range h.nat64 {
		if p.Contains(addr) {
			out = append(out, translated(b, p.Bits()))
		}
	}
	return out
}

var wellKnownNAT64 = netip.MustParsePrefix("64:ff9b::/96")

// embeddedAt reports whether RFC 6052 knows prefixes of a length.
func embeddedAt(bits int) bool {
	switch bits {
	case 32, 40, 48, 56, 64, 96:
		return true
	}
	return false
}

// translated is the IPv4 address in an IPv6 one under a prefix of so many bits (RFC 6052, section 2.2): behind the prefix, around byte 8.
func translated(b [16]byte, bits int) netip.Addr {
	var four [4]byte
	at := bits / 8
	for i := range four {
		if at == 8 {
			at++
		}
		four[i] = b[at]
		at++
	}
	return netip.AddrFrom4(four)
}
