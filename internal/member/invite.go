package member

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// An invite is id, uses, end and a MAC under a key derived from the working key, so that the manager need not keep the invites that it
// gave out, only how often each was used. Rotating the working key voids all invites.

type inviteID [8]byte

type usage struct {
	used     uint32
	notAfter time.Time
}

const inviteBytes = 8 + 4 + 8 + 16

// Invite makes an invite for a number of joins. id is 8 random bytes.
func (i *Issuer) Invite(id [8]byte, uses uint32, notAfter time.Time) (string, error) {
	if uses == 0 || !notAfter.After(time.Unix(0, 0)) {
		return "", fmt.Errorf("member: invite for %d joins until %s", uses, stamp(notAfter))
	}
	b := make([]byte, 0, inviteBytes)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint32(b, uses)
	b = binary.BigEndian.AppendUint64(b, uint64(notAfter.Unix()))
	i.mu.Lock()
	shared := i.shared
	i.mu.Unlock()
	seed := i.authority.key.Seed()
	if shared != nil {
		seed = shared.key[:]
	}
	mac, err := macOf(seed, b)
	if err != nil {
		return "", err
	}
	return encodeText(kindInvite, append(b, mac...)), nil
}

// sharedInvites is what managers of one network have in common.
type sharedInvites struct {
	key   [32]byte
	count func(u InviteUse) (used uint32, err error)
}

// InviteUse is one use of an invite that is to be counted.
type InviteUse struct {
	ID       [8]byte
	Uses     uint32 // all that it is for
	Before   uint32 // that this issuer has counted
	NotAfter time.Time
}

// ErrUsedUp is what a count returns for an invite without uses left.
var ErrUsedUp = errors.New("member: the invite is used up")

// ShareInvites has this issuer make and count invites together with others: with a key that all of them have, so that each takes what another has made, and
// with a count that is one for all. Invites of its own working key stay good here.
func (i *Issuer) ShareInvites(key [32]byte, count func(InviteUse) (used uint32, err error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shared = &sharedInvites{key, count}
}

// TakeInvites has this issuer take invites of a key that it had shared with others, which are not there any more, and counts their uses with its own. uses are those
// that were counted together.
func (i *Issuer) TakeInvites(key [32]byte, uses []InviteUse) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken = append(i.taken, key)
	for _, u := range uses {
		if have := i.used[u.ID]; u.Before > have.used && (have.used > 0 || len(i.used) < maxInvites) {
			i.used[u.ID] = usage{u.Before, u.NotAfter}
		}
	}
}

// Uses are the invites that this issuer knows to be used, and not to have ended.
func (i *Issuer) Uses(now time.Time) (out []InviteUse) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forgetEnded(now)
	for id, u := range i.used {
		out = append(out, InviteUse{ID: id, Before: u.used, NotAfter: u.notAfter})
	}
	return out
}

func macOf(seed, b []byte) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, seed, nil, "shoal invite v1", 32)
	if err != nil {
		return nil, fmt.Errorf("member: invite: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:16], nil
}

// invitation is what an invite says.
type invitation struct {
	id       inviteID
	uses     uint32
	notAfter time.Time
}

// readInvite checks an invite, and that it has uses left; i.mu is held.
func (i *Issuer) readInvite(now time.Time, invite string) (invitation, error) {
	if invite == "" {
		return invitation{}, fmt.Errorf("%w; ask its operator for a join string that carries one", ErrInvite)
	}
	if len(invite) > MaxInvite {
		return invitation{}, fmt.Errorf("%w: the invite is too long", ErrInvite)
	}
	b, err := decodeText(kindInvite, invite)
	if err != nil || len(b) != inviteBytes {
		return invitation{}, fmt.Errorf("%w: the invite is incomplete; copy the join string again, whole", ErrInvite)
	}
	seeds, good := [][]byte{i.authority.key.Seed()}, false
	if i.shared != nil {
		seeds = append(seeds, i.shared.key[:])
	}
	for n := range i.taken {
		seeds = append(seeds, i.taken[n][:])
	}
	for _, seed := range seeds {
		mac, err := macOf(seed, b[:inviteBytes-16])
		if err != nil {
			return invitation{}, err
		}
		good = good || hmac.Equal(mac, b[inviteBytes-16:])
	}
	if !good {
		return invitation{}, fmt.Errorf("%w: the invite is not of this network, or older than its newest key; ask for a new one", ErrInvite)
	}
	in := invitation{inviteID(b[:8]), binary.BigEndian.Uint32(b[8:12]), time.Unix(int64(binary.BigEndian.Uint64(b[12:20])), 0)}
	if now.After(in.notAfter) {
		return invitation{}, fmt.Errorf("%w: the invite ended at %s; ask for a new one", ErrInvite, stamp(in.notAfter))
	}
	if i.used[in.id].used >= in.uses {
		return invitation{}, usedUp(in.uses)
	}
	return in, nil
}

func usedUp(uses uint32) error {
	return fmt.Errorf("%w: the invite has been used %d times, which is all it is for; ask for a new one", ErrInvite, uses)
}

// countShared counts a use of an invite at all managers. i.mu is held, but for the time that this takes: their database may be slow, or away, and others want to
// join and renew.
func (i *Issuer) countShared(u InviteUse) (used uint32, err error) {
	count := i.shared.count
	i.mu.Unlock()
	defer i.mu.Lock()
	return count(u)
}

// useInvite counts one use of an invite, for good; i.mu is held, but not all the time (countShared). A use that cannot be kept is not counted.
func (i *Issuer) useInvite(now time.Time, invite string) error {
	in, err := i.readInvite(now, invite)
	if err != nil {
		return err
	}
	before, known := i.used[in.id]
	if !known && len(i.used) >= maxInvites {
		i.forgetEnded(now)
		if len(i.used) >= maxInvites {
			return fmt.Errorf("%w: %d invites are in use; try again later", ErrRate, maxInvites)
		}
	}
	counted := before.used + 1
	if i.shared != nil {
		counted, err = i.countShared(InviteUse{in.id, in.uses, before.used, in.notAfter})
		before, known = i.used[in.id]
		counted = max(counted, before.used)
		if errors.Is(err, ErrUsedUp) {
			i.used[in.id] = usage{in.uses, in.notAfter}
			return usedUp(in.uses)
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	i.used[in.id] = usage{counted, in.notAfter}
	if i.keep == nil {
		return nil
	}
	if err := i.keep(i.ledger(now)); err != nil {
		if i.used[in.id] = before; !known {
			delete(i.used, in.id)
		}
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	return nil
}

func (i *Issuer) forgetEnded(now time.Time) {
	for id, u := range i.used {
		if now.After(u.notAfter) {
			delete(i.used, id)
		}
	}
}

const ledgerVersion = 1

// Ledger is what the issuer must not forget over a restart: how often each invite was used.
func (i *Issuer) Ledger(now time.Time) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ledger(now)
}

// KeepLedger has every use of an invite kept before a certificate is issued for it. keep must return only once the ledger is durable.
func (i *Issuer) KeepLedger(keep func(ledger []byte) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keep = keep
}

func (i *Issuer) ledger(now time.Time) []byte {
	i.forgetEnded(now)
	m := &memberpb.Ledger{Version: ledgerVersion}
	for id, u := range i.used {
		m.Invites = append(m.Invites, &memberpb.Ledger_Invite{Id: id[:], Used: u.used, NotAfterMs: milli(u.notAfter)})
	}
	sort.Slice(m.Invites, func(a, b int) bool { return string(m.Invites[a].Id) < string(m.Invites[b].Id) })
	return encode(m)
}

// Restore takes a ledger; nil is the empty one.
func (i *Issuer) Restore(ledger []byte) error {
	if len(ledger) == 0 {
		return nil
	}
	var m memberpb.Ledger
	if err := proto.Unmarshal(ledger, &m); err != nil {
		return fmt.Errorf("%w: issuer's ledger: %w", ErrMalformed, err)
	}
	if m.Version != ledgerVersion {
		return fmt.Errorf("%w: issuer's ledger of version %d, this program knows %d", ErrMalformed, m.Version, ledgerVersion)
	}
	if len(m.Invites) > maxInvites {
		return fmt.Errorf("%w: issuer's ledger of %d invites", ErrTooLarge, len(m.Invites))
	}
	used := map[inviteID]usage{}
	for _, v := range m.Invites {
		at, err := fromMilli(v.NotAfterMs)
		if err != nil || len(v.Id) != len(inviteID{}) {
			return fmt.Errorf("%w: issuer's ledger: invite %x", ErrMalformed, v.Id)
		}
		used[inviteID(v.Id)] = usage{v.Used, at}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used = used
	return nil
}
