package wire

import (
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// barred keeps a swarm from addresses that Config.Bar names, which may change while the node runs, and from peers that it is not to dial now. Who is a
// member is the gate's question.
type barred struct {
	bar  func(ma.Multiaddr) bool
	dial func(peer.ID) bool
}

var _ connmgr.ConnectionGater = barred{}

func (b barred) InterceptPeerDial(p peer.ID) bool                 { return b.dial(p) }
func (b barred) InterceptAddrDial(_ peer.ID, a ma.Multiaddr) bool { return !b.bar(a) }
func (barred) InterceptAccept(network.ConnMultiaddrs) bool        { return true }
func (barred) InterceptSecured(network.Direction, peer.ID, network.ConnMultiaddrs) bool {
	return true
}

// InterceptUpgraded closes what others have opened.
func (b barred) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	return !b.bar(c.RemoteMultiaddr()), 0
}
