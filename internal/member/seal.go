package member

import (
	"crypto/ed25519"
	"fmt"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// Contexts of RFC 8032's Ed25519ctx: a signature over a message of one kind is none over another.
const (
	contextDelegation  = "shoal delegation v1"
	contextCertificate = "shoal certificate v1"
	contextDocument    = "shoal document v1"
	contextTask        = "shoal task v1"
	contextReleases    = "shoal releases v1"
)

func sign(key ed25519.PrivateKey, context string, raw []byte) []byte {
	sig, err := key.Sign(nil, raw, &ed25519.Options{Context: context})
	if err != nil {
		panic("member: sign: " + err.Error()) // only for a context beyond 255 bytes
	}
	return sig
}

func verify(key [32]byte, context string, raw, sig []byte) error {
	if len(sig) == 0 {
		return ErrUnsigned
	}
	if ed25519.VerifyWithOptions(key[:], raw, sig, &ed25519.Options{Context: context}) != nil {
		return ErrAltered
	}
	return nil
}

// seal signs raw and wraps it. limit is the named limit that readers keep.
func seal(key ed25519.PrivateKey, context string, raw, delegation []byte, limit int) ([]byte, error) {
	b := encode(&memberpb.Sealed{Raw: raw, Sig: sign(key, context, raw), Delegation: delegation})
	if len(b) > limit {
		return nil, fmt.Errorf("%w: %d bytes to sign as %q, at most %d", ErrTooLarge, len(b), context, limit)
	}
	return b, nil
}

func unseal(what string, b []byte, limit int) (*memberpb.Sealed, error) {
	if len(b) > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes, at most %d", ErrTooLarge, what, len(b), limit)
	}
	var m memberpb.Sealed
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
	}
	if len(m.Raw) == 0 {
		return nil, fmt.Errorf("%w: empty %s", ErrMalformed, what)
	}
	return &m, nil
}

func encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("member: encode: " + err.Error()) // validate has refused what is not UTF-8
	}
	return b
}

// openDelegation checks everything but the time.
func openDelegation(network NetworkID, sealed []byte) (Delegation, error) {
	m, err := unseal("delegation", sealed, MaxDelegation)
	if err != nil {
		return Delegation{}, err
	}
	d, err := parseDelegation(m.Raw)
	if err != nil {
		return Delegation{}, err
	}
	if d.Network != network {
		return Delegation{}, fmt.Errorf("%w: delegation of network %s, not %s", ErrOtherNetwork, d.Network, network)
	}
	if err := verify(network, contextDelegation, m.Raw, m.Sig); err != nil {
		return Delegation{}, fmt.Errorf("delegation: %w", err)
	}
	return d, nil
}

// Unsafe readers, for showing what a thing claims to be. They check form and limits, no signature.

// ReadCertificate tells what a sealed certificate says, without checking that it is true.
func ReadCertificate(sealed []byte) (Certificate, error) {
	m, err := unseal("certificate", sealed, MaxCertificate)
	if err != nil {
		return Certificate{}, err
	}
	return parseCertificate(m.Raw)
}

// ReadDocument tells what a sealed document says, without checking that it is true.
func ReadDocument(sealed []byte) (Document, error) {
	m, err := unseal("document", sealed, MaxDocument)
	if err != nil {
		return Document{}, err
	}
	return parseDocument(m.Raw)
}

// ReadDelegation tells what a sealed delegation says, without checking that it is true.
func ReadDelegation(sealed []byte) (Delegation, error) {
	m, err := unseal("delegation", sealed, MaxDelegation)
	if err != nil {
		return Delegation{}, err
	}
	return parseDelegation(m.Raw)
}
