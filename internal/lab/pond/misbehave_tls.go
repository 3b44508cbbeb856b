package pond

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// TLS records and messages (RFC 5246, RFC 8446).
const (
	recordAlert     = 21
	recordHandshake = 22
	versionTLS10    = 0x0301
	versionTLS12    = 0x0303
	suiteRC4        = 0x0005 // TLS_RSA_WITH_RC4_128_SHA
	suiteGCM        = 0xc02b // TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
)

func record(kind byte, version uint16, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{kind}, version)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

// serverHello chooses a version and a cipher suite, whatever the client offered.
func serverHello(version, suite uint16, extensions []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, version)
	b = append(b, make([]byte, 32)...) // random
	b = append(b, 0)                   // session id
	b = binary.BigEndian.AppendUint16(b, suite)
	b = append(b, 0) // compression
	if extensions != nil {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(extensions))), extensions...)
	}
	return append([]byte{2, 0, byte(len(b) >> 8), byte(len(b))}, b...)
}

// handshake answers a client's first message in ways in which crypto/tls never does.
func (s *Server) handshake(m Mode, c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(MaxDrip)) // a connection that is closed says so below
	send := func(b []byte) bool { _, err := c.Write(b); return err == nil }
	switch m {
	case TLSCut:
		send(record(recordHandshake, versionTLS12, serverHello(versionTLS12, suiteGCM, nil))[:20])
		return
	case TLSOld:
		send(record(recordHandshake, versionTLS10, serverHello(versionTLS10, suiteGCM, nil)))
	case TLSWeakCipher:
		send(record(recordHandshake, versionTLS12, serverHello(versionTLS12, suiteRC4, nil)))
	case TLSProtocol:
		alpn := append([]byte{0, 16, 0, 9, 0, 7, 6}, "spdy/3"...)
		send(record(recordHandshake, versionTLS12, serverHello(versionTLS12, suiteGCM, alpn)))
	case TLSGarbage:
		send([]byte(strings.Repeat("\x99\xfa no record of any kind ", 100)))
	case TLSAlert:
		send(record(recordAlert, versionTLS12, []byte{2, 40})) // fatal: handshake_failure
	case TLSWarnings:
		for warning := record(recordAlert, versionTLS12, []byte{1, 90}); send(warning); { // user_canceled
		}
	case TLSDrip: // a message of 64 KiB, a byte in each record
		for send(record(recordHandshake, versionTLS12, []byte{2, 1, 0, 0})); send(record(recordHandshake, versionTLS12, []byte{0})); time.Sleep(dripEvery) {
		}
	case TLSStall:
	}
	_, _ = io.Copy(io.Discard, c) // until the client has had enough
}

// handshake reports whether m answers a client's first message itself.
func (m Mode) handshake() bool {
	switch m {
	case TLSCut, TLSOld, TLSWeakCipher, TLSProtocol, TLSGarbage, TLSAlert, TLSWarnings, TLSDrip, TLSStall:
		return true
	}
	return false
}

// renegotiate serves robots.txt and answers every other request with a request for a new handshake. crypto/tls never
// sends one, so the pond makes the record itself with the keys that crypto/tls logs.
func (s *Server) renegotiate(t *tls.Conn, g *gate, secrets *strings.Builder, host int) {
	_ = t.SetDeadline(time.Now().Add(MaxDrip))
	br := bufio.NewReader(t)
	for records := uint64(1); ; records++ { // the first was the handshake's last
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		s.requests.Add(1)
		leave := s.enter(host, req, 0)
		if req.URL.Path != "/robots.txt" {
			b, err := helloRequest(secrets.String(), g.said, records)
			if err == nil {
				_, err = g.Conn.Write(b)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, g.Conn)
			}
			leave()
			return
		}
		_, err = io.WriteString(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		leave()
		if err != nil {
			return
		}
	}
}

// helloRequest returns an encrypted HelloRequest as the n-th record under TLS 1.2's keys for AES-128-GCM and SHA-256.
func helloRequest(secrets string, said []byte, n uint64) ([]byte, error) {
	var random, master []byte
	if _, err := fmt.Sscanf(secrets, "CLIENT_RANDOM %x %x", &random, &master); err != nil {
		return nil, fmt.Errorf("pond: keys: %w", err)
	}
	const at = 5 + 4 + 2 // of the server's random: after the heads of record and message, and the version
	if len(said) < at+32 {
		return nil, fmt.Errorf("pond: a server's first words of %d bytes", len(said))
	}
	seed := append(append([]byte("key expansion"), said[at:at+32]...), random...)
	const key, iv = 16, 4
	keys := expand(master, seed, 2*key+2*iv)
	block, err := aes.NewCipher(keys[key : 2*key])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	explicit := binary.BigEndian.AppendUint64(nil, n)
	nonce := append(append([]byte(nil), keys[2*key+iv:]...), explicit...)
	message := []byte{0, 0, 0, 0}
	head := append(append([]byte(nil), explicit...), recordHandshake, versionTLS12>>8, versionTLS12&0xff, 0, byte(len(message)))
	return record(recordHandshake, versionTLS12, append(explicit, aead.Seal(nil, nonce, message, head)...)), nil
}

// expand is P_SHA256 (RFC 5246, section 5).
func expand(secret, seed []byte, n int) (out []byte) {
	sum := func(parts ...[]byte) []byte {
		h := hmac.New(sha256.New, secret)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	for a := sum(seed); len(out) < n; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:n]
}
