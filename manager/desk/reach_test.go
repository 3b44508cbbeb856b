package desk

import (
	"strconv"
	"strings"
	"testing"

	"shoal/channel"
)

// What every peer refuses is refused when it is added.
func TestPublicHost(t *testing.T) {
	for _, host := range []string{
		"https://example.org", "http://example.org:8080", "https://example.org:8443", "http://93.184.215.14", "http://[2606:2800:21f:cb07::1]:8000",
		"http://localhosts.example", "http://onion.example", "http://lan.example", "http://notlocal.example", "http://test.example",
	} {
		if err := PublicHost(host); err != nil {
			t.Errorf("%s is refused: %v", host, err)
		}
	}
	for host, want := range map[string]string{
		"http://localhost": "not on the public Web", "http://localhost:8080": "not on the public Web", "http://app.localhost": "not on the public Web",
		"http://printer.local": "not on the public Web", "http://db.internal": "not on the public Web", "http://router.home.arpa": "not on the public Web", "http://nas.lan": "not on the public Web",
		"http://notlocal": "has no dot", "https://example": "has no dot", "https://intranet.": "has no dot", "http://staging.test": "not on the public Web", "http://box.localdomain": "not on the public Web",
		"http://127.0.0.1": "not on the public Web", "http://10.1.2.3": "not on the public Web", "http://169.254.169.254": "not on the public Web", "http://100.64.0.1": "not on the public Web",
		"http://example.invalid": "not on the public Web", "http://abcdef.onion": "not on the public Web", "http://onion.example.invalid:8080": "not on the public Web",
		"http://0.0.0.0": "not on the public Web", "http://198.18.0.1": "not on the public Web", "http://224.0.0.1": "not on the public Web",
		"http://[::1]": "not on the public Web", "http://[fd00::1]": "not on the public Web", "http://[fe80::1]": "not on the public Web", "http://[::ffff:10.0.0.1]": "not on the public Web",
		"http://[64:ff9b::a00:1]": "not on the public Web", "http://[2002:a00:1::]": "not on the public Web",
		"http://example.org:6379": "port 6379 is none", "https://example.org:2375": "port 2375 is none", "http://example.org:9200": "port 9200 is none",
		"http://example.org:22": "port 22 is none", "http://example.org:8500": "port 8500 is none", "http://example.org:0": "port 0 is none",
	} {
		if err := PublicHost(host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", host, err, want)
		}
	}
	for port := range 1 << 16 { // as the list says, and no other way
		if got := PublicHost("http://example.org:"+strconv.Itoa(port)) == nil; got != channel.WebPort(uint16(port)) {
			t.Fatalf("port %d: accepted %v", port, got)
		}
	}
}
