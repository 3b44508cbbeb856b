package main

import (
	"testing"

	"shoal/internal/wire"
)

// TestALabelShieldsNobody has a member choose another peer's id, or an account, for its name: these can be banned all the same.
func TestALabelShieldsNobody(t *testing.T) {
	const id = "12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf"
	var members []wire.Connected
	for _, name := range []string{id, "invite-abcdefgh", "Ada"} {
		members = append(members, wire.Connected{Member: wire.Member{Account: "a friend", Label: name}})
	}
	for name, refused := range map[string]bool{id: false, "invite-abcdefgh": false, "Ada": true, "nobody": false} {
		if err := onlyLabel(name, members); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
