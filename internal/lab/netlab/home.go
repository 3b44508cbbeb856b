//go:build linux

package netlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
)

// Attach gives a home another address, with its network, on the cable to its router.
func (h *Host) Attach(prefix string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return fmt.Errorf("netlab: attach: %w", err)
	}
	args := []string{"addr", "add", p.String(), "dev", "eth0"}
	if p.Addr().Is6() {
		args = append(args, "nodad")
	}
	return h.ip(args...)
}

// Via sends what the home has no route for to an address of its router.
func (h *Host) Via(gate netip.Addr) error {
	return h.ip(family(gate), "route", "replace", "default", "via", gate.String(), "dev", "eth0")
}

// Route sends a network's packets to a gate, as a VPN or a second router has it done. A table other than 0 holds the route apart from the others; a rule
// then leads to it.
func (h *Host) Route(network string, gate netip.Addr, table int) error {
	f := family(gate)
	add := []string{f, "route", "add", network, "via", gate.String(), "dev", "eth0"}
	if table == 0 {
		return h.ip(add...)
	}
	if err := h.ip(append(add, "table", fmt.Sprint(table))...); err != nil {
		return err
	}
	return h.ip(f, "rule", "add", "to", network, "lookup", fmt.Sprint(table))
}

// Neighbour lets the router answer for an address in one of the home's networks, as another computer of the home would.
func (h *Host) Neighbour(prefix string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return fmt.Errorf("netlab: neighbour: %w", err)
	}
	args := []string{"addr", "add", p.String(), "dev", "lan"}
	if p.Addr().Is6() {
		args = append(args, "nodad")
	}
	return h.ip(args...)
}

// Answer lets a router answer for every address of a network.
func (h *Host) Answer(prefix string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return fmt.Errorf("netlab: answer: %w", err)
	}
	return h.ip(family(p.Addr()), "route", "add", "local", p.String(), "dev", "lo")
}

// Forward lets a router pass on IPv6 packets.
func (h *Host) Forward() error {
	return run("ip", "netns", "exec", h.name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "-4"
	}
	return "-6"
}

// Resolve lets programs that Command starts on the host ask a name server. It writes below /etc/netns, where the
// program ip finds what is to stand in for /etc, and returns a function that removes it again.
func (h *Host) Resolve(server netip.Addr) (remove func() error, err error) {
	dir := filepath.Join("/etc/netns", h.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("netlab: name server: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	for name, text := range map[string]string{
		"resolv.conf": fmt.Sprintf("nameserver %v\noptions timeout:2 attempts:3\n", server), "hosts": "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, errors.Join(fmt.Errorf("netlab: name server: %w", err), remove())
		}
	}
	return remove, nil
}

// CountTCP lets the kernel count the TCP connections that programs on the host begin, by address and port: Tried tells
// them. Connections of the host to itself count too.
func (h *Host) CountTCP() error {
	rules := []string{"add table inet tried"}
	for _, v := range []struct{ set, kind, addr string }{{"to4", "ipv4_addr", "ip"}, {"to6", "ipv6_addr", "ip6"}} {
		rules = append(rules, fmt.Sprintf("add set inet tried %s { type %s . inet_service ; flags dynamic ; size 65535 ; counter ; }", v.set, v.kind))
	}
	rules = append(rules, "add chain inet tried out { type filter hook output priority 0 ; }",
		"add rule inet tried out tcp flags & (syn|ack) == syn add @to4 { ip daddr . tcp dport }",
		"add rule inet tried out tcp flags & (syn|ack) == syn add @to6 { ip6 daddr . tcp dport }")
	return h.nft(rules...)
}

// Tried returns how many TCP connections were begun to each address since CountTCP or ForgetTried.
func (h *Host) Tried() (map[netip.AddrPort]int, error) {
	out := map[netip.AddrPort]int{}
	for _, set := range []string{"to4", "to6"} {
		text, err := exec.Command("ip", "netns", "exec", h.name, "nft", "-j", "list", "set", "inet", "tried", set).Output()
		if err != nil {
			return nil, fmt.Errorf("netlab: read the counters of %s: %w", h.name, err)
		}
		if err := readCounters(text, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ForgetTried sets the counters back.
func (h *Host) ForgetTried() error {
	return h.nft("flush set inet tried to4", "flush set inet tried to6")
}

// readCounters reads a set of nft, as JSON, whose elements are addresses with ports.
func readCounters(text []byte, out map[netip.AddrPort]int) error {
	var list struct {
		NFTables []struct {
			Set struct {
				Elem []struct {
					Elem struct {
						Val     struct{ Concat [2]json.RawMessage }
						Counter struct{ Packets int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("netlab: counters: %w", err)
	}
	for _, n := range list.NFTables {
		for _, e := range n.Set.Elem {
			var addr netip.Addr
			var port uint16
			if err := errors.Join(json.Unmarshal(e.Elem.Val.Concat[0], &addr), json.Unmarshal(e.Elem.Val.Concat[1], &port)); err != nil {
				return fmt.Errorf("netlab: counters: %w", err)
			}
			out[netip.AddrPortFrom(addr, port)] += e.Elem.Counter.Packets
		}
	}
	return nil
}
