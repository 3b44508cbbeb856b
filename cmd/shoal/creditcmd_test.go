package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCreditOfAMisspeltAccount: an account that nobody has is not told as one that brought nothing.
func TestCreditOfAMisspeltAccount(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		weeks := ""
		if r.URL.Query().Get("account") == "invite-17" {
			weeks = `{"week":"2026-W48","pages":3}`
		}
		fmt.Fprintf(w, `{"account":%q,"weeks":[%s]}`, r.URL.Query().Get("account"), weeks)
	}))
	defer s.Close()
	for account, unknown := range map[string]bool{"invite-17": false, "invite-71": true} {
		code, out, said := call(t, "credit", "show", account, "--manager", s.URL, "--token", "t")
		if code != 0 || !strings.Contains(out, account) || strings.Contains(said, "If it is misspelt") != unknown {
			t.Errorf("%s: %d\n%s%s", account, code, out, said)
		}
	}
}

// TestHideOfAMisspeltAccount says that nothing was changed: an operator who takes an offensive name off the board must not believe that it is gone.
func TestHideOfAMisspeltAccount(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nickname := ""
		if r.URL.Query().Get("account") == "invite-17" {
			nickname = "Ali"
		}
		fmt.Fprintf(w, `{"profile":{"nickname":%q}}`, nickname)
	}))
	defer s.Close()
	for account, want := range map[string]string{"invite-17": "invite-17 is not on the board any more", "invite-71": "invite-71 had neither nickname nor team, so nothing was changed"} {
		code, out, said := call(t, "credit", "hide", account, "--manager", s.URL, "--token", "t")
		if both := out + said; code != 0 || !strings.Contains(both, want) || strings.Contains(both, "any more") != (account == "invite-17") {
			t.Errorf("%s: %d\n%s", account, code, both)
		}
	}
}
