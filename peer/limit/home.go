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

// Home knows which addresses belong to the volunteer: those of this computer and of the networks that it is attached to or has routes into, those under
// which others see it, and those of other members, who are volunteers too. No crawl may reach any of them, although many are public addresses: homes
// with IPv6 and rented servers have nothing else. The zero Home knows this computer. It may be used from several goroutines at once.
type Home struct {
	// Interfaces lists addresses of this computer with their networks; nil: the system's, net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	mu      sync.Mutex
	routes  func() ([]route, error)             // this computer's routing tables; nil: the system's
	ask     func() (seen, members []netip.Addr) // nil: only Seen and Members tell
	read    time.Time
	changes int // of own and onLink
	own     []netip.Addr
	onLink  []netip.Prefix
	routed  []netip.Prefix          // networks inside that are not on the link
	seen    map[netip.Addr]struct{} // under which others see this computer
	members map[netip.Addr]struct{}
	nat64   []netip.Prefix // under which the network translates IPv6 to IPv4
}

const (
	homeFresh  = 5 * time.Second // so long the lists of interfaces and routes are believed
	maxMembers = 1 << 14         // addresses of members kept
	maxSeen    = 64

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
	if h.leadsInside(addr) {
		return "in a network to which this computer has a route of its own"
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

// leadsInside reports whether a route leads to an address in a network inside. A route to a translator of addresses leads to the whole Internet: what
// is translated is checked instead.
func (h *Home) leadsInside(addr netip.Addr) bool {
	for _, p := range h.nat64 {
		if p.Contains(addr) {
			return false
		}
	}
	return slices.ContainsFunc(h.routed, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// refresh reads interfaces and routes, unless it did so a moment ago. Where they cannot be read, what was known stays.
func (h *Home) refresh(now time.Time) {
	if !h.read.IsZero() && now.Sub(h.read) < homeFresh && !now.Before(h.read) {
		return
	}
	h.readRoutes()
	list := h.Interfaces
	if list == nil {
		list = net.InterfaceAddrs
	}
	addrs, err := list()
	if err != nil {
		return
	}
	own, onLink := h.own, h.onLink
	h.read, h.own, h.onLink = now, nil, nil
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
	if !slices.Equal(own, h.own) || !slices.Equal(onLink, h.onLink) {
		h.changes++
	}
}

func (h *Home) readRoutes() {
	list := h.routes
	if list == nil {
		list = systemRoutes
	}
	if routes, err := list(); err == nil {
		h.routed = routed(routes)
	}
}

// Changes counts how often this computer was found to have other addresses or networks than before.
func (h *Home) Changes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh(time.Now())
	return h.changes
}
