package member

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// An account is what the network holds a member to: its shares, its bans, and what it delivered. A member cannot
// choose its account. It is that of the invite by which the member joined, or else the peer's own key. The name that
// a volunteer chooses is a label, which is shown and counts for nothing.

// AccountOfPeer is the account of a peer that joined without an invite: its own id.
func AccountOfPeer(peer string) string { return peer }

// accountOfInvite is the account of all that join by one invite.
func accountOfInvite(id inviteID) string { return "invite-" + text.EncodeToString(id[:]) }

// CheckAccount says what is wrong with an account, nil if nothing is: it is a short word of visible ASCII.
func CheckAccount(account string) error {
	if len(account) > MaxAccount {
		return fmt.Errorf("%w: account of %d bytes, at most %d", ErrTooLarge, len(account), MaxAccount)
	}
	for i := range len(account) {
		if c := account[i]; c <= ' ' || c >= 0x7f {
			return fmt.Errorf("%w: account %q holds characters that none has", ErrMalformed, clip(account))
		}
	}
	return nil
}

// CheckLabel says what is wrong with a name that a person chose, nil if nothing is. It must not hold what turns the text around it, hides
// in it, or ends its line; the joiners of scripts that need them are let through. The empty label is none.
func CheckLabel(label string) error {
	if len(label) > MaxLabel {
		return fmt.Errorf("%w: the name is %d bytes long, at most %d; choose a shorter one", ErrTooLarge, len(label), MaxLabel)
	}
	if !utf8.ValidString(label) {
		return fmt.Errorf("%w: the name is not UTF-8; write it with letters, digits and spaces", ErrMalformed)
	}
	for _, r := range label {
		if !unicode.IsPrint(r) && r != zeroWidthNonJoiner && r != zeroWidthJoiner {
			return fmt.Errorf("%w: the name holds the character %U, which cannot be seen or turns text around; write it with letters, digits and spaces", ErrMalformed, r)
		}
	}
	return nil
}

const (
	zeroWidthNonJoiner = '\u200c' // Persian and others
	zeroWidthJoiner    = '\u200d'
)

// banBytes is the size of a ban in a document. Others than the issuer learn of a ban by these bytes alone, not whom it is of.
const banBytes = 8

// Ban is a peer or account that is refused, as a document tells it.
type Ban [banBytes]byte

// BanOf is the ban of a peer id or an account.
func BanOf(name string) Ban {
	sum := sha256.Sum256([]byte("shoal ban v1\x00" + name))
	return Ban(sum[:banBytes])
}

// bans is a set of them, sorted.
type bans []Ban

func order(a, b Ban) int {
	x, y := binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(b[:])
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// sorted makes a set.
func sorted(list []Ban) bans {
	out := slices.Clone(list)
	slices.SortFunc(out, order)
	return slices.Compact(out)
}

func (b bans) holds(name string) bool {
	if len(b) == 0 || name == "" {
		return false
	}
	_, found := slices.BinarySearchFunc(b, BanOf(name), order)
	return found
}

// refuse says that a certificate's holder is banned; nil: it is not. The network's own servers cannot be.
func (b bans) refuse(c Certificate) error {
	if c.Role == Peer && (b.holds(c.Peer) || b.holds(c.Account)) {
		return fmt.Errorf("%w: the operator of this network has banned this peer or its account", ErrDenied)
	}
	return nil
}
