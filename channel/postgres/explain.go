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
	codeNoSchema    = "3F000" // also where there is one that the user may not look into
	codeReadOnly    = "25006"
	codeFull        = "53100"
	codeConnections = "53300"
	codeAbandoned   = "25P03"
	codeProtocol    = "08P01" // also whatever pgBouncer has to say
	codePrepared    = "42P05" // a statement was prepared already: by another program, in the same session
	codeUnprepared  = "26000"
	classAuth       = "28"
	classData       = "22"
	classConnection = "08"
	classOperator   = "57P" // shut down, crashed, starting
)

// Explain says what happened and what to do. Errors of package channel and those that are explained pass unchanged.
func (s *Server) Explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	for _, known := range []error{ErrUnreachable, ErrRefused, ErrRights, ErrNewer, ErrOtherNetwork, ErrClosed, ErrDamaged, ErrPooler, ErrEncoding} {
		if errors.Is(err, known) {
			return err
		}
	}
	var network net.Error
	var pg *pgconn.PgError
	switch where := s.where(); {
	case errors.As(err, &pg):
		return s.explainServer(where, pg, err)
	case noTLS(err) && !s.plainToo() && strings.Contains(err.Error(), "server refused TLS connection"):
		return fmt.Errorf("%w: %s does not speak TLS: switch ssl on there, or say sslmode=disable in the URL on a network of your own (%s)", ErrUnreachable, where, unsecret(err))
	case noTLS(err) && !s.plainToo():
		return fmt.Errorf("%w: TLS with %s failed: give the server's authority with sslrootcert=FILE in the URL, or sslmode=disable on a network of your own (%s)", ErrUnreachable, where, unsecret(err))
	case errors.As(err, &network), lost(err):
		return fmt.Errorf("%w: no PostgreSQL answers at %s: start it, or correct its URL (%s)", ErrUnreachable, where, unsecret(err))
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

func (s *Server) explainServer(where string, pg *pgconn.PgError, err error) error {
	switch {
	case strings.HasPrefix(pg.Code, classAuth):
		return fmt.Errorf("%w: %s: correct user and password in the URL, or allow the user in pg_hba.conf (%s)", ErrRefused, where, pg.Message)
	case pg.Code == codeNoDatabase:
		return fmt.Errorf("%w: %s: the server has no such database: create it with createdb, or correct the URL (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeNoRight, pg.Code == codeNoSchema:
		return fmt.Errorf("%w: %s: an administrator grants it: GRANT CREATE ON DATABASE ... TO this user; where the schema %s is there already, its ownership, or while it is empty GRANT USAGE, CREATE ON SCHEMA %s TO this user (%s)",
			ErrRights, where, s.cfg.Schema, s.cfg.Schema, pg.Message)
	case pg.Code == codeReadOnly:
		return fmt.Errorf("%w: %s is a standby that takes no writes: name the primary, or all servers with target_session_attrs=read-write (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeFull:
		return fmt.Errorf("%w: %s: the server's disk is full: make room there; nothing is lost, and writing goes on by itself then (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeConnections:
		return fmt.Errorf("%w: %s has no connection left: raise max_connections, or lower pool_max_conns in the URL (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeAbandoned:
		return fmt.Errorf("%w: %s ended a transaction in whose middle this program had stopped, or was cut off; nothing of it was written (%s)", ErrUnreachable, where, pg.Message)
	case pg.Code == codeCanceled:
		return fmt.Errorf("%s has canceled what took too long, by a limit of time in the URL or an administrator's order: %w", where, err)
	case pg.Code == codePrepared, pg.Code == codeUnprepared:
		return fmt.Errorf("%w (%s)", s.byTransaction(), pg.Message)
	case pg.Code == codeProtocol && strings.Contains(pg.Message, "startup parameter"):
		return fmt.Errorf("%w: %s: a pooler stands there that takes no such parameter: remove it from the URL, or name it in ignore_startup_parameters of pgBouncer (%s)", ErrPooler, where, pg.Message)
	case pg.Code == codeProtocol:
		return fmt.Errorf("%w: %s refuses the connection; a pooler in front of a server speaks so, whose log says more (%s)", ErrUnreachable, where, pg.Message)
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
