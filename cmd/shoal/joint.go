package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/manager"
	"shoal/manager/joint"
)

// protoDesk is how managers of a network ask each other what an operator asks one of them.
const protoDesk protocol.ID = "/shoal/desk/1"

// openJoint joins this manager with the others, and answers what they ask.
func (st *station) openJoint() {
	st.joint = joint.New(joint.Config{Own: st.manager, Store: st.db, Me: st.node.ID().String(), Owner: st.ownerOf, Others: st.otherManagers, Ask: st.askManager, Kept: st.keptByOthers, Heard: st.releases.page})
	st.node.Handle(protoDesk, joint.MaxAsk, 2*joint.Timeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		if from.Role != member.Manager {
			st.node.Refuse("desk_role")
			return nil, wire.Errorf(wire.Refused, "only managers of the network may ask that")
		}
		return st.joint.Answer(ctx, req)
	})
}

// keptByOthers is what other managers have counted, and noticed of members, as they wrote it down last.
func (st *station) keptByOthers(ctx context.Context) (map[string]manager.Overview, error) {
	return manager.CountedBy(ctx, st.others.shared)
}

// ownerOf is the manager that has a host's partition; empty: none has it now.
func (st *station) ownerOf(key channel.HostKey) string {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	return st.others.owner[key.Part()]
}

// otherManagers are those that share the network, without this one.
func (st *station) otherManagers() (out []joint.Other) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	for _, a := range st.others.about {
		if a.Peer != st.node.ID().String() {
			out = append(out, joint.Other{Peer: a.Peer, Machine: a.Name})
		}
	}
	return out
}

// errNotHere says that a manager is not one of those that share the network now.
var errNotHere = errors.New("it is not among the managers that share the network now")

// askManager asks another manager.
func (st *station) askManager(ctx context.Context, name string, req []byte) ([]byte, error) {
	id, err := st.reachManager(ctx, name)
	if err != nil {
		return nil, err
	}
	return st.node.Call(ctx, id, protoDesk, req, joint.MaxAnswer)
}

// reachManager connects to another manager, if it is not connected.
func (st *station) reachManager(ctx context.Context, name string) (peer.ID, error) {
	id, err := peer.Decode(name)
	if err != nil {
		return "", fmt.Errorf("manager %s: %w", name, err)
	}
	if m, known := st.node.Member(id); known && m.Role == member.Manager {
		return id, nil
	}
	addrs := st.addrsOf(name)
	if addrs == nil {
		return "", fmt.Errorf("manager %s: %w", name, errNotHere)
	}
	dial, cancel := context.WithTimeout(ctx, managerDial)
	defer cancel()
	return id, st.node.Connect(dial, id, addrs...)
}

const managerDial = 3 * time.Second

// addrsOf are the addresses of another manager; nil: it is not known.
func (st *station) addrsOf(name string) []string {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	for _, a := range st.others.about {
		if a.Peer == name {
			return a.Addrs
		}
	}
	return nil
}
