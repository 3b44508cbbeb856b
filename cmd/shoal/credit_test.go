package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/jsonwords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/manager"
	"shoal/manager/archive"
)

// creditTable is an archive that keeps credit.
type creditTable struct {
	of    map[string]manager.AccountCredit
	names map[string]manager.Profile
}

func (b *creditTable) CreditOf(_ context.Context, account string) (manager.AccountCredit, error) {
	k := b.of[account]
	k.Profile = b.names[account]
	return k, nil
}

func (b *creditTable) SetProfile(account string, f manager.Profile) error {
	if f.Nickname == "bad" {
		return fmt.Errorf("%w: it is bad", manager.ErrProfile)
	}
	b.names[account] = f
	return nil
}

func (b *creditTable) Holder(string) uint64 { return 7 }

func (b *creditTable) DelivererNumber(name string) uint64 {
	if name == "gone" {
		return 7
	}
	return 8
}

func (b *creditTable) Deliverers(_ context.Context, name string) ([]archive.Deliverer, error) {
	if name == archive.DelivererName(7) {
		return []archive.Deliverer{{Account: "ada"}}, nil
	}
	return nil, nil
}

// TestCreditsOfPeers tells a peer its account's credit, member or not; only members change a profile, not too often, and get certificates, of what counts.
func TestCreditsOfPeers(t *testing.T) {
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	book := &creditTable{of: map[string]manager.AccountCredit{}, names: map[string]manager.Profile{}}
	k := manager.AccountCredit{Rank: 2, Ranked: 3}
	k.Sum.Pages, k.Sum.Bytes = 5, 500
	k.Weeks = make([]archive.Week, 70)
	k.Weeks[0].Name, k.Weeks[69].Monday = "2026-W47", now.AddDate(-1, 0, 0)
	book.of["ada"] = k
	k.Withheld = true
	book.of["mallory"] = k
	accounts := map[string]string{"a": "ada", "m": "mallory", "n": "new"}
	c := &credits{book: book, account: func(peer string) string { return accounts[peer] }, sign: keys.Authority.CertifyContribution, network: "Example", board: "http://b", now: func() time.Time { return now }}
	for peer, pages := range map[string]uint64{"a": 5, "gone": 5, "n": 0, "stranger": 0} {
		if got, err := c.of(t.Context(), peer); err != nil || got.Pages != pages || got.Board != "http://b" || len(got.Weeks) > wire.MaxWeeks {
			t.Errorf("%s: %+v, %v", peer, got, err)
		}
	}
	if why := c.rename(t.Context(), "gone", wire.Profile{}); !strings.Contains(why, "only a member") {
		t.Error(why)
	}
	if why := c.rename(t.Context(), "a", wire.Profile{Nickname: "bad"}); !strings.Contains(why, "it is bad") {
		t.Error(why)
	}
	if why := c.rename(t.Context(), "a", wire.Profile{Nickname: "Ali"}); !strings.Contains(why, "a moment ago") {
		t.Error(why)
	}
	now = now.Add(renameEvery)
	if why := c.rename(t.Context(), "a", wire.Profile{Nickname: "Ali", Team: "Sharks"}); why != "" || book.names["ada"].Team != "Sharks" {
		t.Error(why)
	}
	if why := c.rename(t.Context(), "a", wire.Profile{Nickname: "Ali", Team: "Sharks"}); why != "" {
		t.Errorf("who asks again, as the answer was lost, is refused: %s", why)
	}
	for peer, want := range map[string]string{"gone": "only a member", "m": "withheld", "n": "nothing"} {
		if text, why := c.certificate(t.Context(), peer, ""); text != "" || !strings.Contains(why, want) {
			t.Errorf("%s: %s %s", peer, text, why)
		}
	}
	if _, why := c.certificate(t.Context(), "a", strings.Repeat("x", maxHolder+1)); why == "" {
		t.Error("an endless name is certified")
	}
	text, why := c.certificate(t.Context(), "a", "Ada")
	if why != "" {
		t.Fatal(why)
	}
	verifyCertificate(t, text, keys.Network.String())
}

// verifyCertificate checks a certificate as a stranger does, and that one is refused that was changed.
func verifyCertificate(t *testing.T, text, network string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "certificate.txt")
	for _, v := range []struct {
		text string
		args []string
		code int
		says string
	}{
		{text, nil, 0, "Compare that network"},
		{text, []string{"--network", network}, 0, "signed by that network, and unchanged"},
		{"\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), nil, 0, "unchanged"}, // as an editor on Windows saves it
		{text, []string{"--json"}, 0, `"team":"Sharks","pages":5,`},
		{text, []string{"--network", "other"}, 1, "but by network"},
		{strings.Replace(text, "5 verified", "5,000 verified", 1), nil, 1, "what the network signed is 5 verified pages"},
		{"nonsense", nil, 1, "is not good"},
	} {
		if err := os.WriteFile(file, []byte(v.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if code := run(t.Context(), append([]string{"certificate", "verify", file}, v.args...), streams{&out, &out}); code != v.code || !strings.Contains(out.String(), v.says) {
			t.Errorf("verify %v: %d %s", v.args, code, out.String())
		} else if len(v.args) > 0 && v.args[0] == "--json" {
			if wrong := jsonwords.Complaints(out.String(), byName...); len(wrong) > 0 {
				t.Errorf("%s\n%s", strings.Join(wrong, "\n"), out.String())
			}
		}
	}
}
