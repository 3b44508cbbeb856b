package limit

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Home knows which addresses belong to the volunteer: those of this computer and of the networks that it is attached to, those under which others see
// it, and those of other members, who are volunteers too. No crawl may reach any of them, although many are public addresses: homes with IPv6 and
// rented servers have nothing else. The zero Home knows the addresses of this computer. It may be used from several goroutines at once.
type Home struct {
	// Interfaces lists addresses of this computer with their networks; nil: the system's, net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	mu      sync.Mutex
	ask     func() (seen, members []netip.Addr) // nil: only Seen and Members tell
	read    time.Time
	own     []netip.Addr
	onLink  []netip.Prefix
	seen    map[netip.Addr]struct{} // under which others see this computer
	members map[netip.Addr]struct{}
	nat64   []netip.Prefix // under which the network translates IPv6 to IPv4
}

const (
	homeFresh  = 20 * time.Second // so long the list of interfaces is believed
	maxMembers = 1 << 14          // addresses of members kept
	maxSeen    = 64
	maxNAT64   = 8

	// A home is given an IPv6 prefix of its own, mostly a /56, and has several networks in it. A rented server's neighbours are in it too, which no
	// crawl misses.
	homeBits = 56
	// An IPv4 network that is larger than this is no network that one is attached to, but a tunnel's idea of the Internet.
	leastBits4, leastBits6 = 8, 32
)

// Ask sets a function that is called before each dial. It returns the addresses under which others see this computer now,
// and those of the members that are connected now. An address is thus refused from the moment that it is known.
func (h *Home) Ask(f func() (seen, members []netip.Addr)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask = f
}

// look calls the function that Ask has set.
func (h *Home) look() {
	h.mu.Lock()
	ask := h.ask
	h.mu.Unlock()
	if ask == nil {
		return
	}
	seen, members := ask()
	h.Seen(seen...)
	h.Members(members...)
}

// Seen adds addresses under which others see this computer. They are kept until the program ends, since a router may still forward an old one.
func (h *Home) Seen(addrs ...netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = keep(h.seen, maxSeen, addrs)
}

// Members adds addresses from which members connected, or to which this computer connected as to a member. An address that a member only tells of is
// none of these, or a liar could keep whole sites from being crawled.
func (h *Home) Members(addrs ...netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members = keep(h.members, maxMembers, addrs)
}

// keep adds addresses to a set that has at most so many; a full one is begun anew.
func keep(set map[netip.Addr]struct{}, most int, addrs []netip.Addr) map[netip.Addr]struct{} {
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if !a.IsValid() || a.IsLoopback() {
			continue
		}
		if set == nil || len(set) >= most {
			set = map[netip.Addr]struct{}{}
		}
		set[a] = struct{}{}
	}
	return set
}

// NAT64 adds prefixes under which the network translates IPv6 addresses to IPv4 ones (RFC 6052), learnt as RFC 7050 describes.
func (h *Home) NAT64(prefixes ...netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range prefixes {
		if len(h.nat64) < maxNAT64 && embeddedAt(p.Bits()) {
			h.nat64 = append(h.nat64, p.Masked())
		}
	}
}

// Own lists this computer's addresses, in order: those of its interfaces, and those under which others see it.
func (h *Home) Own() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh(time.Now())
	out := slices.AppendSeq(slices.Clone(h.own), maps.Keys(h.seen))
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// check refuses an address of the volunteer's or of another member's, and one that leads to such an address through a translator.
func (h *Home) check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh(time.Now())
	for _, four := range h.embedded(addr) {
		if err := public(netip.AddrPortFrom(four, 80)); err != nil {
			return fmt.Errorf("%w: %v leads to %v", ErrForbidden, addr, four)
		}
		if why := h.belongs(four); why != "" {
			return fmt.Errorf("%w: %v leads to %v: %s", ErrForbidden, addr, four, why)
		}
	}
	if why := h.belongs(addr); why != "" {
		return fmt.Errorf("%w: %v: %s", ErrForbidden, addr, why)
	}
	return nil
}

// belongs says whose an address is, or returns "" if that is unknown.
func (h *Home) belongs(addr netip.Addr) string {
	for _, own := range h.own {
		if addr == own {
			return "an address of this computer"
		}
	}
	if _, ok := h.seen[addr]; ok {
		return "the address under which others see this computer"
	}
	for _, p := range h.onLink {
		if p.Contains(addr) {
			return "in the network of this computer"
		}
	}
	if _, ok := h.members[addr]; ok {
		return "another member's address"
	}
	if addr.Is6() {
		for seen := range h.seen {
			if seen.Is6() && netip.PrefixFrom(seen, homeBits).Masked().Contains(addr) {
				return "in the network of this computer"
			}
		}
	}
	return ""
}

// refresh reads the interfaces, unless it did so a moment ago. Where they cannot be read, what was known stays.
func (h *Home) refresh(now time.Time) {
	if !h.read.IsZero() && now.Sub(h.read) < homeFresh && !now.Before(h.read) {
		return
	}
	list := h.Interfaces
	if list == nil {
		list = net.InterfaceAddrs
	}
	addrs, err := list()
	if err != nil {
		return
	}
	h.read, h.own, h.onLink = now, h.own[:0], h.onLink[:0]
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		ip = ip.Unmap()
		bits, _ := n.Mask.Size()
		h.own = append(h.own, ip)
		switch {
		case ip.Is4() && bits >= leastBits4:
			h.onLink = append(h.onLink, netip.PrefixFrom(ip, bits).Masked())
		case ip.Is6() && bits >= leastBits6:
			if ip.IsGlobalUnicast() && !ip.IsPrivate() {
				bits = min(bits, homeBits)
			}
			h.onLink = append(h.onLink, netip.PrefixFrom(ip, bits).Masked())
		}
	}
}

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

// LearnNAT64 asks the name servers whether they answer with translated addresses (RFC 7050), and keeps the prefixes that they use.
func (h *Home) LearnNAT64(ask func(host string) ([]netip.Addr, error)) error {
	addrs, err := ask("ipv4only.arpa")
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if !a.Is6() || a.Is4In6() {
			continue
		}
		for _, bits := range []int{96, 64, 56, 48, 40, 32} {
			if four := translated(a.As16(), bits); four == onlyIPv4[0] || four == onlyIPv4[1] {
				h.NAT64(netip.PrefixFrom(a, bits).Masked())
				break
			}
		}
	}
	return nil
}

// onlyIPv4 are the addresses of ipv4only.arpa (RFC 7050, section 8.2).
var onlyIPv4 = [2]netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}
