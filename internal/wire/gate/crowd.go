package gate

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
)

// Crowd bounds the connections that others have opened and that are not members' yet, from the first packet on. When there are too many it
// closes the oldest one of the address prefix that has most of them. A connection that becomes a member's does so within a few round
// trips, so that it is among the youngest; one that is silent grows old. No prefix can keep another's connections out.
type Crowd struct {
	most int

	mu       sync.Mutex // guards all below
	guests   map[string]*guest
	prefixes map[string]*list.List // of *guest, the oldest first
	arrived  uint64
}

type guest struct {
	key, prefix string
	number      uint64 // in order of arrival
	close       func()
	place       *list.Element
}

// NewCrowd bounds a crowd.
func NewCrowd(most int) *Crowd {
	return &Crowd{most: most, guests: map[string]*guest{}, prefixes: map[string]*list.List{}}
}

// Accepted takes in a TCP connection from which nothing was read yet. left must be called when it closes.
func (c *Crowd) Accepted(conn net.Conn) (left func()) {
	key := conn.RemoteAddr().String() + " " + conn.LocalAddr().String()
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	c.enter(key, from.Addr(), func() { conn.Close() })
	return func() { c.leave(key) }
}

// connected takes in a connection that has come by another way than Accepted.
func (c *Crowd) connected(conn network.Conn) {
	key, ok := keyOf(conn)
	if !ok {
		return
	}
	c.mu.Lock()
	_, known := c.guests[key]
	c.mu.Unlock()
	if known {
		return
	}
	ip, err := manet.ToIP(conn.RemoteMultiaddr())
	if err != nil {
		return
	}
	from, _ := netip.AddrFromSlice(ip)
	c.enter(key, from, func() { Expel(conn) })
}

// gone forgets a connection that has become a member's, or closed.
func (c *Crowd) gone(conn network.Conn) {
	if key, ok := keyOf(conn); ok {
		c.leave(key)
	}
}

// keyOf is what a connection is known by before and after it was secured: its two ends. A relayed one has none.
func keyOf(conn network.Conn) (string, bool) {
	remote, ok := endOf(conn.RemoteMultiaddr())
	local, also := endOf(conn.LocalMultiaddr())
	return remote + " " + local, ok && also && !conn.Stat().Limited
}

// endOf is an address up to its port.
func endOf(a ma.Multiaddr) (string, bool) {
	head, _ := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
	if head == nil {
		return "", false
	}
	at, err := manet.ToNetAddr(head)
	if err != nil {
		return "", false
	}
	if _, udp := at.(*net.UDPAddr); udp {
		return "udp " + at.String(), true
	}
	return at.String(), true
}

// enter takes in a guest, and sends one away if there are too many.
func (c *Crowd) enter(key string, from netip.Addr, close func()) {
	c.mu.Lock()
	c.drop(key)
	g := &guest{key: key, prefix: member.Prefix(from), number: c.arrived, close: close}
	c.arrived++
	c.guests[key] = g
	if c.prefixes[g.prefix] == nil {
		c.prefixes[g.prefix] = list.New()
	}
	g.place = c.prefixes[g.prefix].PushBack(g)
	var out *guest
	if len(c.guests) > c.most {
		out = c.oldest()
		c.drop(out.key)
	}
	c.mu.Unlock()
	if out != nil {
		out.close()
	}
}

// oldest is the oldest guest of the prefix that has most; of several such prefixes, of the one whose oldest is older. mu is held.
func (c *Crowd) oldest() *guest {
	var out *guest
	most := 0
	for _, l := range c.prefixes {
		first := l.Front().Value.(*guest)
		if l.Len() > most || l.Len() == most && first.number < out.number {
			most, out = l.Len(), first
		}
	}
	return out
}

func (c *Crowd) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// drop forgets a guest; mu is held.
func (c *Crowd) drop(key string) {
	g := c.guests[key]
	if g == nil {
		return
	}
	delete(c.guests, key)
	of := c.prefixes[g.prefix]
	if of.Remove(g.place); of.Len() == 0 {
		delete(c.prefixes, g.prefix)
	}
}
