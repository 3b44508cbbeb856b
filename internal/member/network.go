package member

import (
	"encoding/base32"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// NetworkID is a network's name: its root public key.
type NetworkID [32]byte

func (n NetworkID) String() string { return text.EncodeToString(n[:]) }

// JoinString is what a volunteer is given: the network's name, where its managers are, and perhaps an invite.
type JoinString struct {
	Network NetworkID
	Addrs   []string // multiaddrs that end in the manager's /p2p/ id
	Invite  string   // empty where anyone may join
}

const (
	kindJoin   = "shoal-join-"
	kindInvite = "shoal-invite-"
	kindRoot   = "shoal-root-key-"
	kindWork   = "shoal-working-key-"
	kindNode   = "shoal-node-key-"
	kindDeleg  = "shoal-delegation-"
	kindPrev   = "shoal-previous-delegation-"
)

// String is one word that survives chat windows: letters, digits and dashes with a checksum.
func (j JoinString) String() string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&memberpb.Join{Network: j.Network[:], Addrs: j.Addrs, Invite: j.Invite})
	if err != nil {
		panic("member: join string: " + err.Error()) // only for strings that are not UTF-8
	}
	return encodeText(kindJoin, b)
}

// ParseJoinString reads what String wrote, and says what is wrong with what people paste instead.
func ParseJoinString(s string) (JoinString, error) {
	if len(s) > MaxJoinString {
		return JoinString{}, fmt.Errorf("%w: join string of %d bytes, at most %d", ErrTooLarge, len(s), MaxJoinString)
	}
	b, err := decodeText(kindJoin, s)
	if err != nil {
		return JoinString{}, err
	}
	var m memberpb.Join
	if err := proto.Unmarshal(b, &m); err != nil {
		return JoinString{}, fmt.Errorf("%w: join string: %w", ErrMalformed, err)
	}
	j := JoinString{Addrs: m.Addrs, Invite: m.Invite}
	if j.Network, err = key32("join string", m.Network); err != nil {
		return JoinString{}, err
	}
	if err := checkAddrs(j.Addrs); err != nil {
		return JoinString{}, err
	}
	if len(j.Addrs) == 0 {
		return JoinString{}, fmt.Errorf("%w: the join string names no address; ask the manager for a new one", ErrMalformed)
	}
	if len(j.Invite) > MaxInvite {
		return JoinString{}, fmt.Errorf("%w: invite of %d bytes", ErrTooLarge, len(j.Invite))
	}
	return j, nil
}

// text is base32 of RFC 4648 in lower case, which a double click selects whole and a telephone can carry.
var text = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// encodeText writes bytes as one word: a kind that says what it is, the bytes, a checksum.
func encodeText(kind string, b []byte) string {
	sum := crc32.ChecksumIEEE(append([]byte(kind), b...))
	return kind + text.EncodeToString(append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, b...))
}

func decodeText(kind, s string) ([]byte, error) {
	name := kindName(kind)
	// Spaces and line breaks come from copying out of mail.
	word := strings.ToLower(strings.Join(strings.Fields(s), ""))
	rest, ok := strings.CutPrefix(word, kind)
	if !ok {
		for _, other := range []string{kindJoin, kindInvite, kindRoot, kindWork, kindNode, kindDeleg, kindPrev, kindContribution} {
			if strings.HasPrefix(word, other) {
				return nil, fmt.Errorf("%w: this is %s %s, not a %s", ErrMalformed, article(kindName(other)), kindName(other), name)
			}
		}
		if word == "" || kind != kindJoin {
			return nil, fmt.Errorf("%w: not a %s; one begins with %q", ErrMalformed, name, kind) // it may be a secret: do not print it
		}
		return nil, fmt.Errorf("%w: %q is not a %s; one begins with %q", ErrMalformed, clip(s), name, kind)
	}
	b, err := text.DecodeString(rest)
	if err != nil || len(b) < 4 || text.EncodeToString(b) != rest {
		return nil, fmt.Errorf("%w: %s: some characters are missing or mistyped; copy it again, whole", ErrMalformed, name)
	}
	if encodeText(kind, b[4:]) != word {
		return nil, fmt.Errorf("%w: %s: its checksum does not match: a character is missing or mistyped; copy it again, whole", ErrMalformed, name)
	}
	return b[4:], nil
}

func article(word string) string {
	if strings.ContainsAny(word[:1], "aeiou") {
		return "an"
	}
	return "a"
}

// kindName is a kind in words: "root key".
func kindName(kind string) string {
	if kind == kindJoin {
		return "join string"
	}
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(kind, "shoal-"), "-"), "-", " ")
}

func key32(what string, b []byte) ([32]byte, error) {
	if len(b) != 32 {
		return [32]byte{}, fmt.Errorf("%w: %s: key of %d bytes, wants 32", ErrMalformed, what, len(b))
	}
	return [32]byte(b), nil
}

func checkAddrs(addrs []string) error {
	if len(addrs) > MaxAddrs {
		return fmt.Errorf("%w: %d addresses, at most %d", ErrTooLarge, len(addrs), MaxAddrs)
	}
	for _, a := range addrs {
		if len(a) > MaxAddr {
			return fmt.Errorf("%w: address of %d bytes, at most %d", ErrTooLarge, len(a), MaxAddr)
		}
		if !strings.HasPrefix(a, "/") || !utf8.ValidString(a) {
			return fmt.Errorf("%w: address %q; it looks like /ip4/192.0.2.1/tcp/7785", ErrMalformed, clip(a))
		}
	}
	return nil
}

// clip keeps what others wrote out of messages beyond a few words.
func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "..."
	}
	return s
}
