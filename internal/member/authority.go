package member

import (
	"crypto/ed25519"
	"fmt"
	"sync/atomic"
	"time"

	"shoal/channel"
)

// Authority signs for a network with a delegated working key. It is safe for concurrent use; it never changes.
type Authority struct {
	key ed25519.PrivateKey
	by  atomic.Pointer[delegated]
}

// delegated is a delegation and its sealed form.
type delegated struct {
	Delegation
	sealed []byte
}

// NewAuthority binds a working key (32 bytes of seed) to the delegation that covers it.
func NewAuthority(seed [32]byte, network NetworkID, sealedDelegation []byte) (*Authority, error) {
	d, err := openDelegation(network, sealedDelegation)
	if err != nil {
		return nil, err
	}
	a := &Authority{key: ed25519.NewKeyFromSeed(seed[:])}
	a.by.Store(&delegated{d, sealedDelegation})
	if [32]byte(a.key.Public().(ed25519.PublicKey)) != d.Key {
		return nil, fmt.Errorf("%w: it is for another working key", ErrDelegation)
	}
	return a, nil
}

// Network is the network that it signs for.
func (a *Authority) Network() NetworkID { return a.by.Load().Network }

// Delegation is what it may sign, and how long.
func (a *Authority) Delegation() Delegation { return a.by.Load().Delegation }

// Sealed is its delegation as others check it, for Document.Delegations.
func (a *Authority) Sealed() []byte { return a.by.Load().sealed }

// Certify signs a certificate for this network.
func (a *Authority) Certify(c Certificate) ([]byte, error) {
	c.Network = a.Network()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return seal(a.key, contextCertificate, c.marshal(), a.Sealed(), MaxCertificate)
}

// SignDocument signs a document for this network.
func (a *Authority) SignDocument(d Document) ([]byte, error) {
	d.Network = a.Network()
	if err := d.validate(); err != nil {
		return nil, err
	}
	return seal(a.key, contextDocument, d.marshal(), a.Sealed(), MaxDocument)
}

// SignHeader signs a task for this network. It refuses a task that its receivers would refuse for its size.
func (a *Authority) SignHeader(h channel.Header) (channel.Signed, error) {
	h.Network = a.Network()
	raw := h.Marshal()
	s := channel.Signed{Raw: raw, Sig: sign(a.key, contextTask, raw), Delegation: a.Sealed()}
	if n := len(s.Raw) + len(s.Sig) + len(s.Delegation); n > maxTask {
		return channel.Signed{}, fmt.Errorf("%w: task header of %d bytes for channel %d, at most %d", ErrTooLarge, n, h.Channel, maxTask)
	}
	return s, nil
}

// maxTask is what a signed task may hold so that its envelope stays within channel.MaxHeader.
const maxTask = channel.MaxHeader - 16

// Life of what a manager signs by default.
const (
	CertificateLife = 24 * time.Hour
	DocumentLife    = 7 * 24 * time.Hour
	DelegationLife  = 365 * 24 * time.Hour
)
