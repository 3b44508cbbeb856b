package api

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
)

// books is an archive that keeps credit.
type books struct {
	noFiles
	since time.Time
	names map[string]manager.Profile
}

func (b *books) CreditOf(_ context.Context, account string) (manager.AccountCredit, error) {
	return manager.AccountCredit{Account: account, Profile: b.names[account]}, nil
}

func (b *books) Board(_ context.Context, since time.Time, _ int) (manager.Board, error) {
	b.since = since
	return manager.Board{From: since}, nil
}

func (b *books) SetProfile(account string, f manager.Profile) error {
	b.names[account] = f
	return nil
}

// Credit and board are read, and a profile is written, over HTTP.
func TestCredit(t *testing.T) {
	cfg := badgerdb.Default(t.TempDir())
	cfg.MinFree = 0
	db, err := badgerdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	files := &books{names: map[string]manager.Profile{}}
	d, err := desk.Open(t.Context(), desk.Config{Store: db, Archive: files})
	if err != nil {
		t.Fatal(err)
	}
	h, err := Handler(Config{Desk: d})
	if err != nil {
		t.Fatal(err)
	}
	c := Local(h)
	if err := c.Do(t.Context(), http.MethodPut, "/credit/profile", nil, ProfileAsk{Account: "alice", Profile: manager.Profile{Nickname: "Ali", Public: true}}, nil); err != nil {
		t.Fatal(err)
	}
	var got manager.AccountCredit
	if err := c.Do(t.Context(), http.MethodGet, "/credit", url.Values{"account": {"alice"}}, nil, &got); err != nil || got.Profile.Nickname != "Ali" || got.Account != "alice" {
		t.Errorf("%+v, %v", got, err)
	}
	var board manager.Board
	if err := c.Do(t.Context(), http.MethodGet, "/board", url.Values{"weeks": {"2"}, "n": {"5"}}, nil, &board); err != nil || time.Since(files.since) < 6*24*time.Hour {
		t.Errorf("since %v, %v", files.since, err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/credit", nil, nil, &got); err == nil {
		t.Error("credit of nobody")
	}
}
