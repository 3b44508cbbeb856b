package member

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// MaxPass bounds a pass.
const MaxPass = 384

// Pass is a certificate as it is told of third members, many at once: without its signer's delegation, which the document has.
type Pass struct {
	Certificate
	Serial uint64 // of the signer's delegation
}

// PassOf makes a pass of a sealed certificate.
func PassOf(certificate []byte) ([]byte, error) {
	m, err := unseal("certificate", certificate, MaxCertificate)
	if err != nil {
		return nil, err
	}
	d, err := ReadDelegation(m.Delegation)
	if err != nil {
		return nil, err
	}
	b := encode(&memberpb.Pass{Raw: m.Raw, Sig: m.Sig, Serial: d.Serial})
	if len(b) > MaxPass {
		return nil, fmt.Errorf("%w: pass of %d bytes, at most %d", ErrTooLarge, len(b), MaxPass)
	}
	return b, nil
}

// VerifyPass checks that a peer is a member now, by the delegations of the newest document. Whether the peer is the one that it is told of
// is for the caller to compare.
func (v *Verifier) VerifyPass(now time.Time, pass []byte) (Pass, error) {
	if len(pass) > MaxPass {
		return Pass{}, fmt.Errorf("%w: pass of %d bytes, at most %d", ErrTooLarge, len(pass), MaxPass)
	}
	var m memberpb.Pass
	if err := proto.Unmarshal(pass, &m); err != nil {
		return Pass{}, fmt.Errorf("%w: pass: %w", ErrMalformed, err)
	}
	if len(m.Sig) == 0 {
		return Pass{}, fmt.Errorf("pass: %w", ErrUnsigned)
	}
	c, err := parseCertificate(m.Raw)
	if err != nil {
		return Pass{}, err
	}
	if c.Network != v.network {
		return Pass{}, fmt.Errorf("pass: %w: %s, not %s", ErrOtherNetwork, c.Network, v.network)
	}
	p := Pass{c, m.Serial}
	if err := v.StillGood(now, p); err != nil {
		return Pass{}, err
	}
	all, err := v.delegated(now, m.Serial)
	if err != nil {
		return Pass{}, fmt.Errorf("pass: %w", err)
	}
	for _, d := range all {
		if err = verify(d.Key, contextCertificate, m.Raw, m.Sig); err == nil {
			return p, nil
		}
	}
	return Pass{}, fmt.Errorf("pass: %w", err)
}

// StillGood checks the times of a pass whose signature was checked before, and that no newer document outdates it or bans its holder.
func (v *Verifier) StillGood(now time.Time, p Pass) error {
	v.mu.Lock()
	least, banned := v.minSerial, v.banned
	v.mu.Unlock()
	if p.Serial < least {
		return fmt.Errorf("pass: %w: serial %d, oldest in use is %d", ErrOutdated, p.Serial, least)
	}
	if err := banned.refuse(p.Certificate); err != nil {
		return fmt.Errorf("pass: %w", err)
	}
	return check("the certificate", now, p.NotBefore, p.NotAfter)
}

// delegated are the document's delegations of that serial that may certify. Several managers' keys may have one serial, where they were made in the
// same second.
func (v *Verifier) delegated(now time.Time, serial uint64) (all []Delegation, err error) {
	doc, _ := v.Document()
	for _, sealed := range doc.Delegations {
		if d, rerr := ReadDelegation(sealed); rerr != nil || d.Serial != serial {
			continue
		}
		d, serr := v.signer(at(now), sealed, SignCertificates)
		if serr != nil {
			err = serr
			continue
		}
		all = append(all, d)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("%w: the document names none of serial %d", ErrDelegation, serial)
}
