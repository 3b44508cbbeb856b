package postgres

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// strict is an address of a server that takes only those parameters of a connection which pgBouncer takes.
func strict(t *testing.T, s *pglab.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { greetStrictly(c, s.Socket()) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return "postgres://shoal@" + l.Addr().String() + "/" + strings.TrimPrefix(strings.Split(s.URL(), "?")[0], "postgres://shoal@/") + "?sslmode=disable"
}

// greetStrictly reads the first message of a client, and passes it on with all that follows, or refuses it.
func greetStrictly(c net.Conn, socket string) {
	defer c.Close()
	first, err := pgproto3.NewBackend(c, c).ReceiveStartupMessage()
	if err != nil {
		return
	}
	taken := []string{"user", "database", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name"}
	if m, ok := first.(*pgproto3.StartupMessage); ok {
		for name := range m.Parameters {
			if !slices.ContainsFunc(taken, func(is string) bool { return strings.EqualFold(is, name) }) {
				said := &pgproto3.ErrorResponse{Severity: "FATAL", Code: codeProtocol, Message: "unsupported startup parameter: " + name}
				if b, err := said.Encode(nil); err == nil {
					_, _ = c.Write(b)
				}
				return
			}
		}
	}
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	if b, err := first.Encode(nil); err != nil {
		return
	} else if _, err := server.Write(b); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(server, c) })
	both.Go(func() { pass(c, server) })
	both.Wait()
}

// pass copies until one side ends, and then ends the other one.
func pass(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, werr := to.Write(b[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// TestStrictPooler works through a pooler that refuses most parameters of a connection. One in the URL is named.
func TestStrictPooler(t *testing.T) {
	s := pglab.Shared(t)
	url := strict(t, s)
	worksAt(t, url)
	cfg := Default(url + "&statement_timeout=1000")
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrPooler) || !strings.Contains(err.Error(), "ignore_startup_parameters") {
		t.Errorf("with a parameter that the pooler refuses: %v", err)
	}
}

// worksAt opens two schemas at an address at once, and works on each. Writes of each are found in it when it is opened again.
func worksAt(t *testing.T, url string) {
	t.Helper()
	for range 2 {
		for _, name := range []string{"one", "two"} {
			db := openAt(t, url, name)
			e, err := db.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, err := db.Host(t.Context(), "http://a.example")
			if err != nil {
				t.Fatal(err)
			}
			if err := db.UpdateHost(t.Context(), e, "http://a.example", func(h *channel.Host) { h.Blocked += name }); err != nil {
				t.Fatal(err)
			}
			if h, err := db.Host(t.Context(), "http://a.example"); err != nil || h.Blocked != before.Blocked+name {
				t.Errorf("in %s: %q, then %q, %v", name, before.Blocked, h.Blocked, err)
			}
			if strings.Trim(before.Blocked, name) != "" {
				t.Errorf("%s has what was written to another schema: %q", name, before.Blocked)
			}
		}
	}
}

// TestBehindPgBouncer works through pgBouncer by session, and refuses it by transaction.
func TestBehindPgBouncer(t *testing.T) {
	s := pglab.Shared(t)
	worksAt(t, pglab.StartPooler(t, s, "session"))
	cfg := Default(pglab.StartPooler(t, s, "transaction"))
	cfg.Schema = schemaOf(t, "by transaction")
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrPooler) || !strings.Contains(err.Error(), "pool_mode = session") {
		t.Errorf("by transaction: %v", err)
	}
}
