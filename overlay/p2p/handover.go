package p2p

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/channel"
	"shoal/overlay"
)

// Only a peer that accepted a task may claim it. When that peer leaves it gives the task to another with a signed word, the handover, which
// the other one shows with its claim.

// handoverDomain keeps a handover's signature from passing for anything else that the key signs.
const handoverDomain = "shoal handover 1\x00"

// errHandovers says that a task's handovers do not lead from one peer to the next, or are too many.
var errHandovers = errors.New("p2p: bad handovers")

// HandOver returns the task with the word that its holder, whose key this is, gave it to a peer.
func HandOver(key crypto.PrivKey, s channel.Signed, to overlay.ID) (channel.Signed, error) {
	from, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return s, fmt.Errorf("p2p: hand a task over: %w", err)
	}
	sig, err := key.Sign(handedOver(s.Raw, string(to)))
	if err != nil {
		return s, fmt.Errorf("p2p: sign a handover: %w", err)
	}
	s.Handovers = append(slices.Clip(s.Handovers), channel.Handover{From: from.String(), To: string(to), Sig: sig})
	if n := len(s.Marshal()); n > channel.MaxHeader || len(s.Handovers) > channel.MaxHandovers {
		return s, fmt.Errorf("%w: %d in a task of %d bytes, at most %d in %d", errHandovers, len(s.Handovers), n, channel.MaxHandovers, channel.MaxHeader)
	}
	return s, nil
}

// handedOver is what a giver signs.
func handedOver(raw []byte, to string) []byte {
	task := sha256.Sum256(raw)
	return slices.Concat([]byte(handoverDomain), task[:], []byte(to))
}

// Giver checks that a task was handed over from peer to peer until this one had it, and returns the first that gave it. Whether that one had
// accepted it is for the caller to know. A task that was never handed over comes from the peer itself.
func Giver(s channel.Signed, has string) (string, error) {
	if len(s.Handovers) == 0 {
		return has, nil
	}
	holder := s.Handovers[0].From
	for _, h := range s.Handovers {
		if h.From != holder {
			return "", fmt.Errorf("%w: %s gives what %s has", errHandovers, h.From, holder)
		}
		id, err := peer.Decode(h.From)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errHandovers, err)
		}
		key, err := id.ExtractPublicKey()
		if err != nil {
			return "", fmt.Errorf("%w: %w", errHandovers, err)
		}
		if ok, err := key.Verify(handedOver(s.Raw, h.To), h.Sig); err != nil || !ok {
			return "", fmt.Errorf("%w: the signature of %s is wrong", errHandovers, h.From)
		}
		holder = h.To
	}
	if holder != has {
		return "", fmt.Errorf("%w: %s has it, not %s", errHandovers, holder, has)
	}
	return s.Handovers[0].From, nil
}

// givers tells which peers may hand tasks over. It is safe for concurrent use; the zero value knows of nobody.
type givers struct {
	mu    sync.Mutex
	until map[string]time.Time // of peers whose tasks were not theirs to give
}

// Of a peer that handed over a task which may not be claimed none is taken for giverRest. maxGivers bounds how many such peers are remembered.
const (
	giverRest = time.Hour
	maxGivers = 1024
)

// may says why a member does not take a task from another one; nil: it does. That the giver had accepted the task is not known here. The archive finds it
// out when the task is claimed.
func (g *givers) may(now time.Time, s channel.Signed, self, from string) error {
	n := len(s.Handovers)
	if n == 0 || s.Handovers[n-1].From != from {
		return fmt.Errorf("%w: without the word of %s", errHandovers, from)
	}
	g.mu.Lock()
	until := g.until[from]
	g.mu.Unlock()
	if now.Before(until) {
		return fmt.Errorf("%w: %s gave what may not be claimed", errHandovers, from)
	}
	_, err := Giver(s, self)
	return err
}

// fenced notes that a task may not be claimed.
func (g *givers) fenced(now time.Time, s channel.Signed) {
	n := len(s.Handovers)
	if n == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until == nil {
		g.until = map[string]time.Time{}
	}
	if len(g.until) >= maxGivers {
		first := ""
		for id, at := range g.until {
			if first == "" || at.Before(g.until[first]) {
				first = id
			}
		}
		delete(g.until, first)
	}
	g.until[s.Handovers[n-1].From] = now.Add(giverRest)
}

// Fenced says that the archive did not let this member claim a task. If a peer had handed it over, no more is taken from that one for a while.
func (r *Runner) Fenced(task channel.Signed) { r.givers.fenced(r.cfg.Wire.Now(), task) }
