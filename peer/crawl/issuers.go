package crawl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
)

// Bounds of Issuers.
const (
	maxIssuers = 256 // certificates; a few dozen issue most of the Web's
	maxLacking = 4   // certificates that a chain may lack
)

// Issuers remembers intermediate certificates that hosts have sent. Many hosts send their own alone, and browsers, which have met its issuer elsewhere, show them all
// the same. Only what a root vouches for is remembered, and with it a chain is checked as any other. The zero value is ready to use. It is safe for use by
// several goroutines.
type Issuers struct {
	mu  sync.Mutex
	all []*x509.Certificate // the longest unused first
}

// verifier gives what checks the certificates of a host in place of crypto/tls, which knows only those that the host sends.
func (i *Issuers) verifier(host string, roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(c tls.ConnectionState) error {
		sent := c.PeerCertificates
		if len(sent) == 0 {
			return errors.New("crawl: tls: the host sends no certificate")
		}
		opts := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
		for _, cert := range sent[1:] {
			opts.Intermediates.AddCert(cert)
		}
		chains, err := sent[0].Verify(opts)
		var unknown x509.UnknownAuthorityError
		if errors.As(err, &unknown) {
			if more := i.lacking(sent); len(more) > 0 {
				for _, cert := range more {
					opts.Intermediates.AddCert(cert)
				}
				chains, err = sent[0].Verify(opts)
			}
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: sent, Err: err}
		}
		i.remember(chains)
		return nil
	}
}

// lacking gives known issuers of what was sent, and theirs.
func (i *Issuers) lacking(sent []*x509.Certificate) (found []*x509.Certificate) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for at := 0; at < len(sent)+len(found) && len(found) < maxLacking; at++ {
		of := slices.Concat(sent, found)[at]
		for _, c := range i.all {
			if string(c.RawSubject) == string(of.RawIssuer) && len(found) < maxLacking && !slices.ContainsFunc(found, c.Equal) {
				found = append(found, c)
			}
		}
	}
	return found
}

// remember notes what stands between the hosts' certificates and the roots.
func (i *Issuers) remember(chains [][]*x509.Certificate) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, chain := range chains {
		for _, c := range chain[1:max(len(chain)-1, 1)] {
			i.all = append(slices.DeleteFunc(i.all, c.Equal), c)
		}
	}
	i.all = slices.Delete(i.all, 0, max(len(i.all)-maxIssuers, 0))
}
