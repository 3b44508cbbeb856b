package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/channel/storetest"
	"shoal/internal/lab/pglab"
)

// encoded makes a database beside that of a test, and gives its URL.
func encoded(t *testing.T, s *pglab.Server, name, encoding, set string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	base := conn.Config().Database + "_" + name
	for _, sql := range []string{
		fmt.Sprintf(`CREATE DATABASE %s ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`, base, encoding),
		strings.ReplaceAll(set, "SET", "ALTER DATABASE "+base+" SET"),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(s.URL(), "?", "_"+name+"?", 1)
}

// TestEncodings opens databases of encodings and settings that an administrator may have chosen, and keeps text of any alphabet there.
func TestEncodings(t *testing.T) {
	s := pglab.Shared(t)
	for name, of := range map[string][2]string{
		"ascii": {"SQL_ASCII", ""}, "latin": {"LATIN1", ""}, "win": {"WIN1252", ""}, "client": {"UTF8", "SET client_encoding = 'LATIN1'"}, "backslash": {"UTF8", "SET standard_conforming_strings = off"},
	} {
		t.Run(name, func(t *testing.T) {
			url := encoded(t, s, name, of[0], of[1])
			storetest.Run(t, func(t testing.TB, name string) storetest.Database { return openAt(t, url, name) }, "Add", "Update", "Lookup", "Spellings", "Apply", "Dump")
			for range 2 {
				db := openAt(t, url, "text")
				e, err := db.Take(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				const said = `Größe – "中文" \\ 'х' 🐟`
				for range 2 {
					h, err := db.Host(t.Context(), "https://a.test")
					if err != nil || h.Blocked != "" && h.Blocked != said {
						t.Errorf("%q, %v", h.Blocked, err)
					}
					if err := db.UpdateHost(t.Context(), e, "https://a.test", func(h *channel.Host) { h.Blocked = said }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestEncodingsThatLoseText: a database that would refuse a text one day, or give back another, is refused at the start, with what to do.
func TestEncodingsThatLoseText(t *testing.T) {
	s := pglab.Shared(t)
	for name, of := range map[string][2]string{"euc": {"EUC_JP", ""}, "clientwin": {"UTF8", "SET client_encoding = 'WIN1252'"}, "clientutf": {"LATIN1", "SET client_encoding = 'UTF8'"}} {
		cfg := Default(encoded(t, s, name, of[0], of[1]))
		cfg.Patience, cfg.Log = 10*time.Second, slog.New(slog.DiscardHandler)
		db, err := Open(t.Context(), cfg)
		if err == nil {
			_ = db.Close()
		}
		if !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), "is in "+of[0]+",") || !strings.Contains(err.Error(), "ENCODING 'UTF8'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
