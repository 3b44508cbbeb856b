package member

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// A network may ask peers that join without an invite for a proof of work (Back, "Hashcash", 2002): a number whose
// hash, together with a salt of the issuer's and the peer's id, begins with some zero bits. The salt changes with the
// time, so that no peer can work ahead. The id is in it, so that each identity costs as much. The issuer stores
// nothing for it.

// ErrWork is a proof of work that is missing or does not hold.
var ErrWork = errors.New("member: this network asks newcomers for a proof of work")

const (
	// MaxWork bounds the zero bits that an issuer may ask for, and that a joiner is ready to search for: about half an hour of one core.
	MaxWork = 32
	// workTerm is how long a salt is handed out; it is good for one term more.
	workTerm = time.Hour

	saltBytes  = 16
	proofBytes = 8
)

// Work is what an issuer asks for.
type Work struct {
	Bits uint8
	Salt []byte
}

// Validate says what is wrong with work that another asks for.
func (w Work) Validate() error {
	if w.Bits == 0 || w.Bits > MaxWork || len(w.Salt) != saltBytes {
		return fmt.Errorf("%w: it asks for %d bits with a salt of %d bytes; at most %d bits are worth it", ErrMalformed, w.Bits, len(w.Salt), MaxWork)
	}
	return nil
}

// Search tries n numbers from one on, for a peer. It returns the proof, or nil where none of them is one.
func (w Work) Search(peer string, from uint64, n int) []byte {
	b := w.input(peer)
	proof := b[len(b)-proofBytes:]
	for i := range uint64(n) {
		binary.BigEndian.PutUint64(proof, from+i)
		if w.holds(b) {
			return append([]byte(nil), proof...)
		}
	}
	return nil
}

// Proves reports whether a proof is one.
func (w Work) Proves(peer string, proof []byte) bool {
	if len(proof) != proofBytes {
		return false
	}
	b := w.input(peer)
	copy(b[len(b)-proofBytes:], proof)
	return w.holds(b)
}

// input is what is hashed, with room for the proof at its end.
func (w Work) input(peer string) []byte {
	b := append([]byte("shoal work v1\x00"), w.Salt...)
	b = append(b, peer...)
	return append(b, make([]byte, proofBytes)...)
}

func (w Work) holds(b []byte) bool {
	sum := sha256.Sum256(b)
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:8])) >= int(w.Bits)
}

// Work is what the issuer asks of those that join without an invite; Bits is 0 where it asks nothing.
func (i *Issuer) Work(now time.Time) (Work, error) {
	if i.policy.Work == 0 {
		return Work{}, nil
	}
	return i.workOf(now.Unix() / int64(workTerm/time.Second))
}

func (i *Issuer) workOf(term int64) (Work, error) {
	key, err := hkdf.Key(sha256.New, i.authority.key.Seed(), nil, "shoal work v1", 32)
	if err != nil {
		return Work{}, fmt.Errorf("member: work: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(term)))
	return Work{Bits: i.policy.Work, Salt: h.Sum(nil)[:saltBytes]}, nil
}

// checkWork refuses a peer whose proof does not hold.
func (i *Issuer) checkWork(now time.Time, r Request) error {
	if i.policy.Work == 0 {
		return nil
	}
	term := now.Unix() / int64(workTerm/time.Second)
	for _, t := range []int64{term, term - 1} {
		w, err := i.workOf(t)
		if err != nil {
			return err
		}
		if w.Proves(r.Peer, r.Work) {
			return nil
		}
	}
	return fmt.Errorf("%w, which this program has not given; update it, or ask the network's operator for an invite", ErrWork)
}
