package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Codes of PostgreSQL's errors (appendix A of its manual).
const (
	codeUnique      = "23505"
	codeSerialize   = "40001"
	codeDeadlock    = "40P01"
	codeCanceled    = "57014"
	codeShutdown    = "57P01"
	codeNoDatabase  = "3D000"
	codeNoRight     = "42501"
	codeReadOnly    = "25006"
	codeFull        = "53100"
	codeConnections = "53300"
	classAuth       = "28"
	classConnection = "08"
	classOperator   = "57P" // shut down, crashed, starting
)

// Explain says what happened and what to do. Errors of package channel and those that are explained pass unchanged.
func (s *Server) Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	for _, known := range []error{ErrUnreachable, ErrRefused, ErrRights, ErrNewer, ErrOtherNetwork, ErrClosed, ErrDamaged} {
		if errors.Is(err, known) {
			return err
		}
	}
	var network net.Error
	var pg *pgconn.PgError
	switch where := s.where(); {
	case errors.As(err, &pg):
		return explainServer(where, pg, err)
	case noTLS(err) && !s.plainToo() && strings.Contains(err.Error(), "server refused TLS connection"):
		return fmt.Errorf("%w: %s does not speak TLS: switch ssl on there, or say sslmode=disable in the URL on a network of your own (%s)", ErrUnreachable, where, unsecret(err))
	case noTLS(err) && !s.plainToo():
		return fmt.Errorf("%w: TLS with %s failed: give the server's authority with sslrootcert=FILE in the URL, or sslmode=disable on a network of your own (%s)", ErrUnreachable, where, unsecret(err))
	case errors.As(err, &network), lost(err):
		return fmt.Errorf("%w: no PostgreSQL answers at %s: start it, or correct --db (%s)", ErrUnreachable, where, unsecret(err))
	}
	return err
}

// plainToo reports whether the URL allows a connection without TLS: then that was tried as well, and TLS is not what is missing.
func (s *Server) plainToo() bool {
	if s.pool == nil { // the URL itself will not do
		return false
	}
	c := s.pool.Config().ConnConfig
	return c.TLSConfig == nil || slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// noTLS reports whether a server answers, and TLS with it fails. One that goes away while it is asked for TLS is just away.
func noTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &cert) || errors.As(err, &unknown) || strings.Contains(err.Error(), " tls: ") || strings.Contains(err.Error(), "server refused TLS")
}

func explainServer(where string, pg *pgconn.PgError, err error) error {
	switch {
	case strings.HasPrefix(pg.Code, classAuth):
		return fmt.Errorf("%w: %s: correct user and password in the URL, or allow the user in pg_hba.conf (%s)", ErrRefused, where, pg.Message)
	case pg.Code == codeNoDatabase:
		return fmt.Errorf("%w: %s: the server has no such database: create it with createdb, or correct the URL (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeNoRight:
		return fmt.Errorf("%w: %s: an administrator grants it: GRANT CREATE ON DATABASE ... TO this user, or the schema's ownership (%s)", ErrRights, where, pg.Message)
	case pg.Code == codeReadOnly:
		return fmt.Errorf("%w: %s is a standby that takes no writes: name the primary, or all servers with target_session_attrs=read-write (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeFull:
		return fmt.Errorf("%w: %s: the server's disk is full: make room there; nothing is lost, and writing goes on by itself then (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeConnections:
		return fmt.Errorf("%w: %s has no connection left: raise max_connections, or lower pool_max_conns in the URL (%s)", ErrUnreachable, where, pg.Message)
	case strings.HasPrefix(pg.Code, classOperator), strings.HasPrefix(pg.Code, classConnection):
		return fmt.Errorf("%w: %s is starting or stopping (%s)", ErrUnreachable, where, pg.Message)
	}
	return fmt.Errorf("%s: %w", where, err)
}

var (
	password  = regexp.MustCompile(`(://[^:/@\s]*:)[^@/\s]*@`)
	parameter = regexp.MustCompile(`(password=)[^&\s]+`) // also sslpassword
)

// unsecret is an error's text without a password.
func unsecret(err error) string { return secretless(err.Error()) }

// secretless is a text without the passwords of URLs.
func secretless(text string) string {
	return parameter.ReplaceAllString(password.ReplaceAllString(text, "${1}xxxxx@"), "${1}xxxxx")
}
