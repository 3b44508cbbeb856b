package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"shoal/internal/lab/netlab"
)

// names is a name server that answers as an attacker's does.
type names struct {
	mu    sync.Mutex
	known map[string][]dnsAnswer // by name, in small letters, without the last dot
	asked map[string]int         // by name and type
	other dnsAnswer              // for names below evil.example that are not known
}

// dnsAnswer is what one name has: addresses, or another name. A name with several answers gives them one after the other,
// and the last for ever.
type dnsAnswer struct {
	addrs []string
	alias string
}

// serve answers over UDP until the test ends.
func (n *names) serve(t *testing.T, h *netlab.Host, at netip.AddrPort) {
	t.Helper()
	var c net.PacketConn
	if err := h.Do(func() (err error) { c, err = net.ListenPacket("udp", at.String()); return err }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			k, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if out, err := n.reply(b[:k]); err == nil {
				_, _ = c.WriteTo(out, from) // a lost answer is asked for again
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
}

// reply is the answer to one question.
func (n *names) reply(question []byte) ([]byte, error) {
	head, q, err := asked(question)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	is, found := n.next(name, q.Type)
	code := dnsmessage.RCodeSuccess
	if !found {
		code = dnsmessage.RCodeNameError
	}
	b, err := answers(head, q, code)
	if err != nil {
		return nil, err
	}
	owner := q.Name
	if is.alias != "" {
		to, err := dnsmessage.NewName(is.alias + ".")
		if err != nil {
			return nil, err
		}
		if err := b.CNAMEResource(dnsmessage.ResourceHeader{Name: owner, Class: q.Class}, dnsmessage.CNAMEResource{CNAME: to}); err != nil {
			return nil, err
		}
		owner = to
	}
	for _, text := range is.addrs {
		a := netip.MustParseAddr(text)
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			err = b.AResource(dnsmessage.ResourceHeader{Name: owner, Class: q.Class}, dnsmessage.AResource{A: a.As4()})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			err = b.AAAAResource(dnsmessage.ResourceHeader{Name: owner, Class: q.Class}, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
		if err != nil {
			return nil, fmt.Errorf("answer for %s: %w", name, err)
		}
	}
	return b.Finish()
}

// next is what a name has now.
func (n *names) next(name string, kind dnsmessage.Type) (dnsAnswer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := fmt.Sprint(name, " ", kind)
	n.asked[at]++
	n.asked[name]++
	list, ok := n.known[name]
	if !ok {
		return n.other, strings.HasSuffix(name, ".evil.example")
	}
	is := list[min(n.asked[at], len(list))-1]
	if is.alias != "" && len(is.addrs) == 0 {
		if to := n.known[is.alias]; len(to) > 0 {
			is.addrs = to[0].addrs
		}
	}
	return is, true
}

// count tells how often a name was asked for.
func (n *names) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}
