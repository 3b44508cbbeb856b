package manager

import (
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// party is who may stand behind a peer's word: its account, and the network of its address. What two peers of one account or of one network say is
// one party's word. So is what all those say that have delivered no pages yet, since names cost little.
type party struct {
	account string // or the peer, where no account is known
	prefix  string // empty: not known
	fresh   bool   // it has delivered nothing
}

// same reports whether two words may be one party's.
func (p party) same(q party) bool {
	return p.account == q.account || p.prefix != "" && p.prefix == q.prefix || p.fresh && q.fresh
}

// parties are those of the peers that had tasks, since a peer may have left when its task comes to nothing.
type parties map[string]party

const maxParties = 1 << 14 // then all are forgotten

// of is the party of a peer.
func (ps parties) of(v *overlay.View, peer string) party {
	i := v.Index(overlay.ID(peer))
	if i < 0 {
		if p, known := ps[peer]; known {
			return p
		}
		return party{account: peer}
	}
	p := partyAt(v, i)
	if len(ps) >= maxParties {
		clear(ps)
	}
	ps[peer] = p
	return p
}

func partyAt(v *overlay.View, i int) party {
	p := party{account: string(v.Peers[i].ID), prefix: v.Prefix(i), fresh: v.Fresh(i)}
	if a := v.Peers[i].Account; a != "" {
		p.account = "account " + a
	}
	return p
}

// soleParty reports whether no peer that takes tasks is of another party.
func soleParty(v *overlay.View, p party) bool {
	for i := range v.Peers {
		if v.Peers[i].Load.Threads > 0 && !partyAt(v, i).same(p) {
			return false
		}
	}
	return true
}

// number stands for a peer's party where only a number is kept: that of all who have delivered nothing; its network's, if peers of several accounts
// are in it; else its account's.
func (ps parties) number(v *overlay.View, peer string) uint64 {
	p := ps.of(v, peer)
	if p.fresh {
		return uint64(lease.PeerOf("fresh"))
	}
	for i := range v.Peers {
		if q := partyAt(v, i); p.prefix != "" && p.prefix == q.prefix && p.account != q.account {
			return uint64(lease.PeerOf("prefix " + p.prefix))
		}
	}
	return uint64(lease.PeerOf(p.account))
}

// partyNumber is a number of a peer's party.
func (le *learner) partyNumber(peer dispatch.Peer) uint64 {
	return le.parties.number(le.cfg.Swarm.View(), string(peer))
}

// holder notes whose a task is, as long as the peer is known. What comes to nothing counts against the party, by whichever of its peers.
func (le *learner) holder(e *archive.Entry) {
	if e.Peer == "" {
		return
	}
	le.parties.of(le.cfg.Swarm.View(), e.Peer)
	if e.Event.By != 0 {
		e.Event.By = le.partyNumber(dispatch.Peer(e.Peer))
	}
}
