package member

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// maxDuration bounds the terms of a document: a month.
const maxDuration = 30 * 24 * time.Hour

// Times carry milliseconds; the bounds keep arithmetic on them from overflowing.
const maxMilli = 1 << 47 // the year 6429

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) (time.Time, error) {
	if ms < 0 || ms > maxMilli {
		return time.Time{}, fmt.Errorf("%w: time %d", ErrMalformed, ms)
	}
	if ms == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(ms).UTC(), nil
}

// span reads the two ends of a validity.
func span(what string, before, after int64) (notBefore, notAfter time.Time, err error) {
	if notBefore, err = fromMilli(before); err != nil {
		return
	}
	if notAfter, err = fromMilli(after); err != nil {
		return
	}
	return notBefore, notAfter, checkSpan(what, notBefore, notAfter)
}

func checkSpan(what string, notBefore, notAfter time.Time) error {
	if !notAfter.After(notBefore) || notAfter.UnixMilli() > maxMilli || !notBefore.IsZero() && notBefore.UnixMilli() < 0 {
		return fmt.Errorf("%w: %s valid from %s to %s", ErrMalformed, what, stamp(notBefore), stamp(notAfter))
	}
	return nil
}

func (d Delegation) validate() error {
	if d.Roles == 0 || d.Roles&^AllRoles != 0 {
		return fmt.Errorf("%w: delegation of roles %b", ErrMalformed, d.Roles)
	}
	if d.Serial == 0 {
		return fmt.Errorf("%w: delegation without a serial", ErrMalformed)
	}
	return checkSpan("delegation", d.NotBefore, d.NotAfter)
}

func (d Delegation) marshal() []byte {
	return encode(&memberpb.Delegation{Network: d.Network[:], Key: d.Key[:], Roles: uint32(d.Roles),
		NotBeforeMs: milli(d.NotBefore), NotAfterMs: milli(d.NotAfter), Serial: d.Serial})
}

func parseDelegation(raw []byte) (d Delegation, err error) {
	var m memberpb.Delegation
	if err := proto.Unmarshal(raw, &m); err != nil {
		return d, fmt.Errorf("%w: delegation: %w", ErrMalformed, err)
	}
	if d.Network, err = key32("delegation", m.Network); err != nil {
		return Delegation{}, err
	}
	if d.Key, err = key32("delegation", m.Key); err != nil {
		return Delegation{}, err
	}
	if d.NotBefore, d.NotAfter, err = span("delegation", m.NotBeforeMs, m.NotAfterMs); err != nil {
		return Delegation{}, err
	}
	// A newer root may delegate roles that this version does not know; they give nothing here.
	d.Roles, d.Serial = Roles(m.Roles)&AllRoles, m.Serial
	return d, d.validate()
}

func (c Certificate) validate() error {
	if c.Peer == "" || !short(c.Peer, MaxPeer) {
		return fmt.Errorf("%w: certificate for peer %q", ErrMalformed, clip(c.Peer))
	}
	if err := CheckAccount(c.Account); err != nil {
		return err
	}
	if err := CheckLabel(c.Label); err != nil {
		return err
	}
	if c.Role < Peer || c.Role > Relay {
		return fmt.Errorf("%w: certificate for %s", ErrMalformed, c.Role)
	}
	return checkSpan("certificate", c.NotBefore, c.NotAfter)
}

func short(s string, limit int) bool { return len(s) <= limit && utf8.ValidString(s) }

func (c Certificate) marshal() []byte {
	return encode(&memberpb.Certificate{Network: c.Network[:], Peer: c.Peer, Account: c.Account, Label: c.Label, Role: uint32(c.Role),
		NotBeforeMs: milli(c.NotBefore), NotAfterMs: milli(c.NotAfter)})
}

func parseCertificate(raw []byte) (c Certificate, err error) {
	var m memberpb.Certificate
	if err := proto.Unmarshal(raw, &m); err != nil {
		return c, fmt.Errorf("%w: certificate: %w", ErrMalformed, err)
	}
	if c.Network, err = key32("certificate", m.Network); err != nil {
		return Certificate{}, err
	}
	if c.NotBefore, c.NotAfter, err = span("certificate", m.NotBeforeMs, m.NotAfterMs); err != nil {
		return Certificate{}, err
	}
	if m.Role > math.MaxUint8 {
		return Certificate{}, fmt.Errorf("%w: certificate for role %d", ErrMalformed, m.Role)
	}
	c.Peer, c.Account, c.Label, c.Role = m.Peer, m.Account, m.Label, Role(m.Role)
	if c.Account == "" && c.Role == Peer { // issued before version 0.2
		c.Account = AccountOfPeer(c.Peer)
	}
	if CheckLabel(c.Label) != nil { // of a time when more was let through; it is for show only
		c.Label = ""
	}
	return c, c.validate()
}

func (d Document) validate() error {
	if !short(d.Name, MaxName) || !short(d.Contact, MaxName) {
		return fmt.Errorf("%w: name or contact of a document beyond %d bytes", ErrTooLarge, MaxName)
	}
	if len(d.Delegations) > MaxDelegations {
		return fmt.Errorf("%w: %d delegations in a document, at most %d", ErrTooLarge, len(d.Delegations), MaxDelegations)
	}
	for _, b := range d.Delegations {
		if len(b) > MaxDelegation {
			return fmt.Errorf("%w: delegation of %d bytes", ErrTooLarge, len(b))
		}
	}
	if len(d.Banned) > MaxBanned {
		return fmt.Errorf("%w: %d bans in a document, at most %d", ErrTooLarge, len(d.Banned), MaxBanned)
	}
	for _, list := range [][]Server{d.Managers, d.Archives, d.Relays} {
		if len(list) > MaxServers {
			return fmt.Errorf("%w: %d servers of a kind in a document, at most %d", ErrTooLarge, len(list), MaxServers)
		}
		for _, s := range list {
			if s.Peer == "" || !short(s.Peer, MaxPeer) {
				return fmt.Errorf("%w: server with peer id %q", ErrMalformed, clip(s.Peer))
			}
			if err := checkAddrs(s.Addrs); err != nil {
				return err
			}
		}
	}
	for _, t := range []time.Duration{d.ClaimWait, d.Lease} {
		if t < 0 || t > maxDuration {
			return fmt.Errorf("%w: a term of %s in a document", ErrMalformed, t)
		}
	}
	if d.Issued.IsZero() {
		return fmt.Errorf("%w: document without a date", ErrMalformed)
	}
	return checkSpan("document", d.Issued, d.NotAfter)
}

func (d Document) marshal() []byte {
	return encode(&memberpb.Document{Network: d.Network[:], Name: d.Name, Delegations: d.Delegations, MinSerial: d.MinSerial,
		Managers: serversOut(d.Managers), Archives: serversOut(d.Archives), Relays: serversOut(d.Relays), Contact: d.Contact,
		ClaimWaitMs: d.ClaimWait.Milliseconds(), LeaseMs: d.Lease.Milliseconds(), MinProtocol: d.MinProtocol,
		IssuedMs: milli(d.Issued), NotAfterMs: milli(d.NotAfter), Banned: bansOut(d.Banned)})
}

func parseDocument(raw []byte) (d Document, err error) {
	var m memberpb.Document
	if err := proto.Unmarshal(raw, &m); err != nil {
		return d, fmt.Errorf("%w: document: %w", ErrMalformed, err)
	}
	if d.Network, err = key32("document", m.Network); err != nil {
		return Document{}, err
	}
	if d.Issued, d.NotAfter, err = span("document", m.IssuedMs, m.NotAfterMs); err != nil {
		return Document{}, err
	}
	const maxMs = int64(maxDuration / time.Millisecond)
	if m.ClaimWaitMs < 0 || m.ClaimWaitMs > maxMs || m.LeaseMs < 0 || m.LeaseMs > maxMs {
		return Document{}, fmt.Errorf("%w: terms of a document: %d ms, %d ms", ErrMalformed, m.ClaimWaitMs, m.LeaseMs)
	}
	d.ClaimWait, d.Lease = time.Duration(m.ClaimWaitMs)*time.Millisecond, time.Duration(m.LeaseMs)*time.Millisecond
	d.Name, d.Contact, d.MinProtocol, d.MinSerial, d.Delegations = m.Name, m.Contact, m.MinProtocol, m.MinSerial, m.Delegations
	if d.Banned, err = bansIn(m.Banned); err != nil {
		return Document{}, err
	}
	d.Managers, d.Archives, d.Relays = serversIn(m.Managers), serversIn(m.Archives), serversIn(m.Relays)
	return d, d.validate()
}

func serversOut(list []Server) []*memberpb.Server {
	out := make([]*memberpb.Server, 0, len(list))
	for _, s := range list {
		out = append(out, &memberpb.Server{Peer: s.Peer, Addrs: s.Addrs})
	}
	return out
}

func serversIn(list []*memberpb.Server) []Server {
	var out []Server
	for _, s := range list {
		out = append(out, Server{Peer: s.Peer, Addrs: s.Addrs})
	}
	return out
}

func bansOut(list []Ban) []byte {
	var b []byte
	for _, one := range list {
		b = append(b, one[:]...)
	}
	return b
}

func bansIn(b []byte) ([]Ban, error) {
	if len(b)%banBytes != 0 {
		return nil, fmt.Errorf("%w: bans of %d bytes", ErrMalformed, len(b))
	}
	var out []Ban
	for one := range slices.Chunk(b, banBytes) {
		out = append(out, Ban(one))
	}
	return out, nil
}
