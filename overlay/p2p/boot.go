package p2p

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
	"shoal/overlay"
)

const (
	keptFile    = "members.json"
	maxKept     = 64 // members whose addresses are kept
	bootFirst   = 200 * time.Millisecond
	bootMost    = 5 * time.Minute
	bootNobody  = 10 * time.Second
	dhtEvery    = 10 * time.Minute
	dhtTimeout  = 20 * time.Second
	fewMembers  = 4 // below so many known members it is looked for more
	maxKeptFile = 1 << 20
)

// keptMember is one line of the file.
type keptMember struct {
	ID    string   `json:"id"`
	Addrs []string `json:"addrs"`
}

// meetKept greets the members of an earlier run. Called on the loop before it begins.
func (r *Runner) meetKept(life context.Context) {
	if r.cfg.Dir == "" {
		return
	}
	for _, k := range readKept(r.cfg.Dir) {
		r.greet(life, overlay.ID(k.ID), k.Addrs)
	}
}

// readKept reads the file of an earlier run. One that cannot be read is as good as none: there are other ways to the members.
func readKept(dir string) []keptMember {
	b, err := os.ReadFile(filepath.Join(dir, keptFile))
	if err != nil || len(b) > maxKeptFile {
		return nil
	}
	var kept, good []keptMember
	if json.Unmarshal(b, &kept) != nil {
		return nil
	}
	for _, k := range kept[:min(len(kept), maxKept)] {
		if len(k.ID) <= member.MaxPeer && len(k.Addrs) <= overlay.MaxAddrs {
			good = append(good, k)
		}
	}
	return good
}

// keep writes the addresses of known members down. Called on the loop at its end.
func (r *Runner) keep() {
	if r.cfg.Dir == "" {
		return
	}
	var kept []keptMember
	for _, p := range r.node.Known() {
		if len(p.Addrs) > 0 && len(kept) < maxKept {
			kept = append(kept, keptMember{ID: string(p.ID), Addrs: p.Addrs})
		}
	}
	b, err := json.Marshal(kept)
	if err == nil {
		if err = os.MkdirAll(r.cfg.Dir, 0o700); err == nil {
			err = member.WriteFile(filepath.Join(r.cfg.Dir, keptFile), b)
		}
	}
	if err != nil {
		r.log.Warn("members' addresses not kept", "err", err)
	}
}

// greet makes the node gossip with a member of which only the address is known. Called on the loop.
func (r *Runner) greet(life context.Context, id overlay.ID, addrs []string) {
	if id == r.id {
		return
	}
	now := r.cfg.Wire.Now()
	if last, ok := r.greeted[id]; ok && now.Sub(last) < bootFirst {
		return
	}
	if len(r.greeted) > maxChecked {
		clear(r.greeted)
	}
	r.greeted[id] = now
	r.send(life, r.node.Greet(now, id, addrs[:min(len(addrs), overlay.MaxAddrs)]))
}

// bootstrap finds members until enough are known: first the managers and relays of the network document, then members
// that kad-dht finds.
func (r *Runner) bootstrap(ctx context.Context) {
	var d *dht.IpfsDHT
	if r.cfg.DHT {
		mode := dht.ModeAuto
		if r.cfg.Places {
			mode = dht.ModeServer
		}
		var err error
		d, err = dht.New(unkept{r.cfg.Wire.Host()}, dht.ProtocolPrefix(protocol.ID("/shoal/"+r.cfg.Wire.Network().String())), dht.Mode(mode),
			dht.DisableAutoRefresh(), dht.DisableValues(), dht.DisableProviders(), dht.BootstrapPeersFunc(r.servers))
		if err != nil {
			r.log.Error("kad-dht not started", "err", err)
		} else {
			defer d.Close()
		}
	}
	wait := bootFirst
	var looked time.Time
	for {
		known := len(r.Peers())
		if home, _ := r.cfg.Wire.Home(); known < fewMembers && !home.Away() {
			r.greetServers(ctx)
		}
		if d != nil && (known < fewMembers || time.Since(looked) > dhtEvery) && known > 0 {
			looked = time.Now()
			r.lookAround(ctx, d)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		// A few members may be all that there are, so ask less and less often. But never accept having none.
		if wait = min(2*wait, bootMost); len(r.Peers()) == 0 {
			wait = min(wait, bootNobody)
		}
	}
}

// greetServers greets the managers and relays of the network document.
func (r *Runner) greetServers(ctx context.Context) {
	for _, s := range r.servers() {
		addrs := make([]string, len(s.Addrs))
		for i, a := range s.Addrs {
			addrs[i] = a.String()
		}
		r.post(ctx, func(life context.Context, _ time.Time) { r.greet(life, overlay.ID(s.ID.String()), addrs) })
	}
}

// comeHome greets the servers each time that a connection to one of them is there again. A manager that was killed knows no peer after its
// start, and the peers have dropped it from their tables.
func (r *Runner) comeHome(ctx context.Context) {
	for {
		home, changed := r.cfg.Wire.Home()
		if home.At != "" {
			r.greetServers(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// unkept is a host whose connections kad-dht does not protect: it would hold some tens of them, a peer holds eight.
type unkept struct{ host.Host }

// ConnManager is one that does nothing.
func (unkept) ConnManager() connmgr.ConnManager { return connmgr.NullConnMgr{} }

// lookAround asks kad-dht for members and greets those that are not known. It finds peers, not nearness.
func (r *Runner) lookAround(ctx context.Context, d *dht.IpfsDHT) {
	ctx, cancel := context.WithTimeout(ctx, dhtTimeout)
	defer cancel()
	if err := d.Bootstrap(ctx); err != nil {
		r.log.Debug("kad-dht", "err", err)
	}
	found, err := d.GetClosestPeers(ctx, string(r.cfg.Wire.ID()))
	if err != nil {
		r.log.Debug("kad-dht found no member", "err", err)
		return
	}
	known := r.View()
	for _, id := range found {
		if known.Find(overlay.ID(id.String())) != nil {
			continue
		}
		var addrs []string
		for _, a := range r.cfg.Wire.Host().Peerstore().Addrs(id) {
			addrs = append(addrs, a.String())
		}
		r.post(ctx, func(life context.Context, _ time.Time) { r.greet(life, overlay.ID(id.String()), addrs) })
	}
}

// servers are the managers and relays that the network document names.
func (r *Runner) servers() []peer.AddrInfo {
	doc, ok := r.cfg.Wire.Document()
	if !ok {
		return nil
	}
	var out []peer.AddrInfo
	for _, s := range append(append([]member.Server(nil), doc.Managers...), doc.Relays...) {
		id, err := peer.Decode(s.Peer)
		if err != nil || id == r.cfg.Wire.ID() {
			continue
		}
		info := peer.AddrInfo{ID: id}
		for _, a := range s.Addrs {
			if m, err := ma.NewMultiaddr(a); err == nil {
				info.Addrs = append(info.Addrs, m)
			}
		}
		out = append(out, info)
	}
	return out
}
