package joint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/manager/trust"
)

// judging is a manager that knows peers, and nothing else.
type judging struct {
	desk.Running
	peers []manager.PeerTrust
}

func (j judging) TrustPeers(context.Context) ([]manager.PeerTrust, error) { return j.peers, nil }

// known are n peers with names as long as they get, from one number on.
func known(from, n int) (out []manager.PeerTrust) {
	long := strings.Repeat("x", 512)
	for i := range n {
		out = append(out, manager.PeerTrust{Info: trust.Info{Peer: trust.Peer(from + i)}, ID: long, Account: long})
	}
	return out
}

// TestManyPeers has two managers know more peers than an answer holds: each shows all of them. One of an older version, which tells all at once, is heard too.
func TestManyPeers(t *testing.T) {
	const each = 2*mostPeers + 17
	other := New(Config{Own: judging{peers: known(each/2, each)}, Me: "other"})
	asked := 0
	own := New(Config{Own: judging{peers: known(1, each)}, Me: "own", Others: func() []Other { return []Other{{Peer: "other"}} },
		Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) {
			asked++
			b, err := other.Answer(ctx, req)
			if len(b) > MaxAnswer {
				t.Errorf("an answer of %d bytes, %d can be sent", len(b), MaxAnswer)
			}
			return b, err
		}})
	all, err := own.TrustPeers(t.Context())
	if want := each + each/2 - 1; err != nil || len(all) != want || asked != 3 {
		t.Errorf("%d peers, want %d; asked %d times; %v", len(all), want, asked, err)
	}
	own.cfg.Ask = func(context.Context, string, []byte) ([]byte, error) { // as before version 0.2
		v, err := json.Marshal(known(each+1, mostPeers))
		if err != nil {
			return nil, err
		}
		return json.Marshal(told{Value: v})
	}
	if all, err = own.TrustPeers(t.Context()); err != nil || len(all) < each+mostPeers {
		t.Errorf("beside an older manager: %d peers, %v", len(all), err)
	}
}

func (j judging) Trust(context.Context) (manager.TrustInfo, error) {
	return manager.TrustInfo{Counts: manager.AuditCounts{Deliveries: 3}, Watched: 1, InDoubt: 1, Doubts: []trust.Doubt{{Channel: 7, Until: time.Unix(1e9, 0)}}, Blind: []manager.Blind{{Hosts: 4}}, Undone: []manager.Undone{{Peer: 7}}}, nil
}

func (j judging) Strategy(context.Context) (manager.StrategyInfo, error) {
	return manager.StrategyInfo{Sequencers: manager.Sequencers{OldTaken: 4}}, nil
}

// TestSilentManagersAreNamed has one of two other managers give no answer: sums say whose part they lack.
func TestSilentManagersAreNamed(t *testing.T) {
	other := New(Config{Own: judging{}, Me: "other"})
	own := New(Config{Own: judging{}, Me: "own", Others: func() []Other { return []Other{{Peer: "other", Machine: "b"}, {Peer: "hung", Machine: "c"}} },
		Ask: func(ctx context.Context, peer string, req []byte) ([]byte, error) {
			if peer == "hung" {
				return nil, context.DeadlineExceeded
			}
			return other.Answer(ctx, req)
		}})
	s, err := own.Strategy(t.Context())
	if err != nil || s.Sequencers.OldTaken != 8 || !slices.Equal(s.Silent, []string{"c"}) {
		t.Errorf("strategy: %+v, %v", s, err)
	}
	i, err := own.Trust(t.Context())
	if err != nil || i.Counts.Deliveries != 6 || i.Watched != 2 || i.InDoubt != 2 || len(i.Doubts) != 2 || len(i.Blind) != 2 || i.Blind[1].Machine != "b" || len(i.Undone) != 2 || i.Undone[1].Machine != "b" || !slices.Equal(i.Silent, []string{"c"}) {
		t.Errorf("trust: %+v, %v", i, err)
	}
}

// pardoning is a manager that has suspended some peers.
type pardoning struct {
	judging
	told *[]trust.Peer // others that a pardon named
}

func (p pardoning) Pardon(_ context.Context, peer string, others ...trust.Peer) (manager.PeerTrust, error) {
	for _, k := range p.peers {
		if k.ID == peer {
			*p.told = others
			k.Standing = trust.Established
			return k, nil
		}
	}
	return manager.PeerTrust{}, manager.ErrAsk
}

func (p pardoning) Evidence(_ context.Context, peer string) (manager.PeerTrust, []archive.EvidenceCase, error) {
	for _, k := range p.peers {
		if k.ID == peer {
			return k, nil, nil
		}
	}
	return manager.PeerTrust{}, nil, manager.ErrAsk
}

// TestPardonKnowsAllManagers pardons a peer of an account of which another manager has suspended another one: the account stays barred, and the operator is told why.
func TestPardonKnowsAllManagers(t *testing.T) {
	peer := func(n trust.Peer, id string, account trust.Account, s trust.Standing) manager.PeerTrust {
		return manager.PeerTrust{Info: trust.Info{Peer: n, Account: account, Standing: s}, ID: id}
	}
	var here, there []trust.Peer
	other := New(Config{Own: pardoning{judging{peers: []manager.PeerTrust{peer(2, "second", 9, trust.Banned), peer(3, "third", 9, trust.Established), peer(4, "fourth", 8, trust.Suspended)}}, &there}, Me: "other"})
	own := New(Config{Own: pardoning{judging{peers: []manager.PeerTrust{peer(1, "first", 9, trust.Suspended), peer(3, "third", 9, trust.Established)}}, &here}, Me: "own",
		Others: func() []Other { return []Other{{Peer: "other"}} }, Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) { return other.Answer(ctx, req) }})
	want := []trust.Peer{2}
	if p, _, err := own.Evidence(t.Context(), "first"); err != nil || !slices.Equal(p.Others, want) {
		t.Errorf("evidence names the others %v, %v; want %v", p.Others, err, want)
	}
	if p, err := own.Pardon(t.Context(), "first"); err != nil || !slices.Equal(p.Others, want) || !slices.Equal(here, want) {
		t.Errorf("a pardon names the others %v, to its manager %v, %v; want %v", p.Others, here, err, want)
	}
	want = []trust.Peer{1}
	if others, _, err := own.othersOf(t.Context(), archive.DelivererName(2)); err != nil || !slices.Equal(others, want) {
		t.Errorf("by its number a peer has the others %v, %v; want %v", others, err, want)
	}
	if p, err := own.Pardon(t.Context(), "second"); err != nil || !slices.Equal(p.Others, want) || !slices.Equal(there, want) {
		t.Errorf("a pardon at another manager names the others %v, to it %v, %v; want %v", p.Others, there, err, want)
	}
}

// deciding is a manager that has suspended a peer, until it pardons it.
type deciding struct {
	judging
	holds *bool
}

func (d deciding) Pardon(context.Context, string, ...trust.Peer) (manager.PeerTrust, error) {
	if !*d.holds {
		return manager.PeerTrust{}, manager.ErrAsk
	}
	*d.holds = false
	return manager.PeerTrust{ID: "peer", Info: trust.Info{Peer: 1, Standing: trust.Established}}, nil
}

// TestPardonWaitsForAllManagers has a manager give no answer to anything: that may have suspended another peer of the account, so nothing is done.
func TestPardonWaitsForAllManagers(t *testing.T) {
	here := true
	own := New(Config{Own: deciding{holds: &here}, Me: "own", Others: func() []Other { return []Other{{Peer: "other", Machine: "b"}} },
		Ask: func(context.Context, string, []byte) ([]byte, error) { return nil, context.DeadlineExceeded }})
	if _, err := own.Pardon(t.Context(), "peer"); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "on b") || !strings.Contains(err.Error(), "nothing is done") || !here {
		t.Errorf("with a silent manager: %v; held here still: %v", err, here)
	}
}

// TestPardonIsFinishedByAskingAgain has a manager give no answer when a peer is pardoned: the operator is told where that is done and where not, and asking again when it
// answers does the rest.
func TestPardonIsFinishedByAskingAgain(t *testing.T) {
	for name, elsewhere := range map[string]bool{"this one holds something": true, "only the silent one does": false} {
		t.Run(name, func(t *testing.T) {
			here, there, silent := elsewhere, true, true
			other := New(Config{Own: deciding{holds: &there}, Me: "other"})
			own := New(Config{Own: deciding{holds: &here}, Me: "own", Others: func() []Other { return []Other{{Peer: "other", Machine: "b"}} },
				Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) {
					if silent && bytes.Contains(req, []byte(`"pardon"`)) {
						return nil, context.DeadlineExceeded
					}
					return other.Answer(ctx, req)
				}})
			_, err := own.Pardon(t.Context(), "peer")
			if !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "on b") || strings.Contains(err.Error(), "nothing is done") == elsewhere || here {
				t.Errorf("with a silent manager: %v; held here still: %v", err, here)
			}
			silent = false
			if p, err := own.Pardon(t.Context(), "peer"); err != nil || p.Standing != trust.Established || there {
				t.Errorf("asked again: %+v, %v; held there still: %v", p, err, there)
			}
			if _, err := own.Pardon(t.Context(), "peer"); !errors.Is(err, manager.ErrAsk) {
				t.Errorf("when nothing is left: %v", err)
			}
		})
	}
}

func (j judging) SetTrust(context.Context, manager.TrustChoice) (manager.TrustInfo, error) {
	return j.Trust(context.Background())
}

// TestSetTrustTellsOfAll has the rules changed at one of two managers: it answers with what both have judged, as when it is asked how far peers are believed.
func TestSetTrustTellsOfAll(t *testing.T) {
	other := New(Config{Own: judging{}, Me: "other"})
	own := New(Config{Own: judging{}, Me: "own", Others: func() []Other { return []Other{{Peer: "other"}} },
		Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) { return other.Answer(ctx, req) }})
	if got, err := own.SetTrust(t.Context(), manager.TrustChoice{}); err != nil || got.Counts.Deliveries != 6 {
		t.Errorf("of %d deliveries is told, %v; both have judged 6", got.Counts.Deliveries, err)
	}
}
