package crawl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Errors of a response that net/http lets through.
var (
	errBomb     = errors.New("crawl: body decompresses to far more than was sent")
	errEncoding = errors.New("crawl: body is not in the encoding that its header names")
	errCheck    = fmt.Errorf("%w: all of it came, and the check at its end is another's", errEncoding)
	errType     = errors.New("crawl: content type is not archived")
)

// kindOf sorts an error for the report. An error may name its own kind.
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	return errorKind(err)
}

func errorKind(err error) string {
	var named interface{ ErrorKind() string }
	var dns *net.DNSError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &named):
		return named.ErrorKind()
	case errors.Is(err, errBomb):
		return "bomb"
	case errors.Is(err, errEncoding):
		return "encoding"
	case errors.Is(err, errType):
		return "type"
	case errors.Is(err, errHeader):
		return "header-too-large"
	case errors.As(err, &dns):
		switch {
		case dns.IsNotFound:
			return "dns-not-found"
		case dns.IsTimeout:
			return "dns-timeout"
		}
		return "dns"
	case errors.As(err, &authority):
		if c := authority.Cert; c != nil && bytes.Equal(c.RawIssuer, c.RawSubject) && !c.IsCA {
			return "tls-self-signed"
		}
		return "tls-unknown-authority"
	case errors.As(err, &name):
		return "tls-wrong-name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore) {
			return "tls-not-yet-valid"
		}
		return "tls-expired"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "tls-certificate"
	case errors.As(err, &record):
		return "tls-not-tls"
	case errors.As(err, &alert):
		return "tls-alert"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	}
	return kindByText(err)
}

// kindByText names errors by their texts: net/http and crypto/tls export no values for them.
func kindByText(err error) string {
	var opErr *net.OpError
	text := err.Error()
	switch {
	case strings.Contains(text, "remote error: tls:"):
		return "tls-alert"
	case strings.Contains(text, "tls: server selected unsupported protocol version"):
		return "tls-version"
	case strings.Contains(text, "tls: "):
		return "tls"
	case strings.Contains(text, "chunked encoding"), strings.Contains(text, "chunk length"), strings.Contains(text, "chunk header"),
		strings.Contains(text, "chunked line"):
		return "broken-chunks"
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "header list"):
		return "header-too-large"
	case strings.Contains(text, "malformed"), strings.Contains(text, "invalid header"), strings.Contains(text, "Content-Length"),
		strings.Contains(text, "long trailer"), strings.Contains(text, "unsupported transfer encoding"):
		return "malformed"
	case strings.Contains(text, "GOAWAY"):
		return "h2-goaway"
	case strings.Contains(text, "http2: client conn could not be established"): // the reason is lost
		return "hang-up"
	case strings.Contains(text, "stream error:") && strings.Contains(text, "received from peer"):
		return "h2-reset"
	case strings.Contains(text, "stream error:"), strings.Contains(text, "connection error:"), strings.Contains(text, "http2: "):
		return "h2-protocol"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut-off"
	case errors.Is(err, io.EOF), strings.Contains(text, "server closed"):
		return "hang-up"
	case errors.As(err, &opErr) && opErr.Timeout():
		return "timeout"
	}
	return "other"
}

// unreachable reports whether an error means that the host cannot be reached, so that the next page would fail too.
func unreachable(kind string) bool {
	switch kind {
	case "refused", "reset", "unreachable", "timeout", "hang-up", "dns", "dns-not-found", "dns-timeout", "forbidden-address", "no-lease", "h2-goaway", "h2-flood":
		return true
	}
	return strings.HasPrefix(kind, "tls")
}
