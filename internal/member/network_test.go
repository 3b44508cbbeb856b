package member

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestJoinString(t *testing.T) {
	id := NewRoot(seed(1)).ID()
	for _, j := range []JoinString{
		{Network: id, Addrs: []string{"/ip4/192.0.2.1/tcp/7785/p2p/12D3KooWManager"}},
		{Network: id, Addrs: []string{"/ip4/192.0.2.1/tcp/7785", "/dns4/shoal.example.org/udp/7785/quic-v1"}, Invite: "shoal-invite-abc"},
	} {
		s := j.String()
		got, err := ParseJoinString(s)
		if err != nil || !reflect.DeepEqual(got, j) {
			t.Fatalf("%+v became %+v, %v", j, got, err)
		}
		if strings.ToUpper(s[20:]) != s[20:] { // mail programs break lines, telephones capitalise
			wrapped := " " + strings.ToUpper(s[:30]) + "\r\n  " + s[30:] + "\n"
			if got, err := ParseJoinString(wrapped); err != nil || !reflect.DeepEqual(got, j) {
				t.Errorf("wrapped: %+v, %v", got, err)
			}
		}
	}
	good := JoinString{Network: id, Addrs: []string{"/ip4/192.0.2.1/tcp/7785"}}.String()
	for name, tt := range map[string]struct{ in, says string }{
		"empty":         {"", `one begins with "shoal-join-"`},
		"an URL":        {"https://example.org/join", `"https://example.org/join" is not a join`},
		"cut off":       {good[:len(good)-7], "copy it again, whole"},
		"mistyped":      {good[:30] + swap(good[30]) + good[31:], "mistyped"},
		"a key":         {encodeText(kindRoot, make([]byte, 32)), "this is a root key, not a join"},
		"no address":    {JoinString{Network: id}.String(), "names no address"},
		"not addresses": {JoinString{Network: id, Addrs: []string{"192.0.2.1:7785"}}.String(), "it looks like /ip4/"},
		"huge":          {strings.Repeat("a", MaxJoinString+1), "at most"},
		"odd network":   {encodeText(kindJoin, []byte{0x0a, 0x01, 0x01}), "key of 1 bytes"},
	} {
		_, err := ParseJoinString(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v is neither malformed nor too large", name, err)
		}
	}
}

func swap(b byte) string {
	if b == 'a' {
		return "b"
	}
	return "a"
}

func TestSecretsAreNotPrinted(t *testing.T) {
	secret := encodeText(kindRoot, []byte("the root key of a whole network!"))
	for _, parse := range []func() error{
		func() error { _, err := ParseJoinString(secret); return err },
		func() error { _, err := decodeKey(kindNode, secret); return err },
		func() error { _, err := decodeKey(kindRoot, secret[1:]); return err },
	} {
		err := parse()
		if err == nil || strings.Contains(err.Error(), secret[len(secret)-30:]) {
			t.Errorf("%v", err)
		}
	}
}

func TestNetworkID(t *testing.T) {
	id := NewRoot(seed(1)).ID()
	if got, err := text.DecodeString(id.String()); err != nil || NetworkID(got) != id || len(id.String()) != 52 {
		t.Fatalf("%s: %v, %v", id, got, err)
	}
}
