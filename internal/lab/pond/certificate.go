package pond

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"
)

// Validity of certificates. The dates are fixed, as is everything in a World.
var (
	validFrom = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// longChain is the number of certificates that TLSChain sends.
const longChain = 1500

// key derives a key from the World's seed.
func (w *World) key(of string) ed25519.PrivateKey {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, w.cfg.Seed), of...))
	return ed25519.NewKeyFromSeed(sum[:])
}

// Authority returns the DER certificate of the authority that signs the certificates of the World's hosts.
func (w *World) Authority() ([]byte, error) { return w.authority("authority") }

// Roots returns a pool for clients that should trust the World's hosts.
func (w *World) Roots() (*x509.CertPool, error) {
	der, err := w.Authority()
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("pond: authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return pool, nil
}

func (w *World) authority(of string) ([]byte, error) {
	k := w.key(of)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pond " + of}, NotBefore: validFrom, NotAfter: validTo,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(nil, t, t, k.Public(), k)
	if err != nil {
		return nil, fmt.Errorf("pond: authority: %w", err)
	}
	return der, nil
}

// identity returns the TLS configuration of a host: a certificate of the World's authority, unless the mode demands
// another.
func (w *World) identity(host int, m Mode) (*tls.Config, error) {
	name, by := w.hosts[host].Name, "authority"
	own := w.key(name)
	t := &x509.Certificate{SerialNumber: big.NewInt(int64(host) + 2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: validFrom, NotAfter: validTo, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	c := tls.Certificate{PrivateKey: own}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	public := own.Public()
	signer := w.key(by)
	switch m {
	case TLSExpired:
		t.NotAfter = validFrom.AddDate(1, 0, 0)
	case TLSNotYet:
		t.NotBefore = validTo.AddDate(-1, 0, 0)
	case TLSWrongName:
		t.DNSNames = []string{"elsewhere" + Suffix}
	case TLSUnknownCA:
		by = "stranger"
		signer = w.key(by)
	case TLSSelfSigned:
		signer = own
	case TLSWeakKey:
		c.PrivateKey = sham{rsaKey(512)}
		public = c.PrivateKey.(sham).Public()
		conf.MaxVersion = tls.VersionTLS12 // 1.3 has no signature that fits into it
	case TLSHugeKey:
		c.PrivateKey = sham{rsaKey(16384)}
		public = c.PrivateKey.(sham).Public()
	case TLSStaple:
		c.OCSPStaple = []byte(strings.Repeat("revoked? ", 1000))
		c.SignedCertificateTimestamps = [][]byte{[]byte("never"), make([]byte, 10_000)}
	case TLSClientCert:
		conf.ClientAuth = tls.RequireAnyClientCert
	case Renegotiate:
		conf.MaxVersion, conf.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
		conf.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}
	ca, err := w.authority(by)
	if err != nil {
		return nil, err
	}
	parent, err := x509.ParseCertificate(ca)
	if err != nil {
		return nil, fmt.Errorf("pond: authority: %w", err)
	}
	if m == TLSSelfSigned {
		parent = t
	}
	der, err := x509.CreateCertificate(nil, t, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("pond: certificate of %s: %w", name, err)
	}
	c.Certificate = [][]byte{der, ca}
	switch m {
	case TLSSelfSigned:
		c.Certificate = c.Certificate[:1]
	case TLSChain:
		for len(c.Certificate) < longChain {
			c.Certificate = append(c.Certificate, ca)
		}
	case TLSMalformed:
		c.Certificate = [][]byte{der[:len(der)/2]}
	}
	conf.Certificates = []tls.Certificate{c}
	return conf, nil
}

// rsaKey returns a made-up public key of that many bits.
func rsaKey(bits int) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits)-1)
	return &rsa.PublicKey{N: n.Add(n, big.NewInt(12345)), E: 65537}
}

// sham signs without a key.
type sham struct{ public *rsa.PublicKey }

func (s sham) Public() crypto.PublicKey { return s.public }

func (s sham) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	if s.public == nil {
		return nil, errors.New("pond: no key")
	}
	return make([]byte, s.public.Size()), nil
}
