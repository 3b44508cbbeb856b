package channel

import "testing"

// TestHostsAreDecodedOnce: a host's name is percent-decoded once, before it is mapped. What the mapping makes of full-width signs is no encoding, no
// bracket and no colon: such URLs are none (Web Platform Tests, urltestdata.json).
func TestHostsAreDecodedOnce(t *testing.T) {
	for _, c := range [][2]string{
		{"％４１.com", ""}, {"%ef%bc%85%ef%bc%94%ef%bc%91.com", ""}, {"％C3％BC.com", ""}, {"％00.com", ""}, {"%2541.com", ""}, {"%%34%31.com", ""}, {"%\u206a41.com", ""}, {"a_b.％４１.bücher.example", ""},
		{"［::1］", ""}, {"［：：１］", ""}, {"%5B::1%5D", ""}, {"%ef%bc%bb::1]", ""}, {"[[::1]]", ""}, {"[::1]]", ""}, {"[[::1]", ""}, {"h.test：80", ""}, {"h.test／x", ""}, {"h.test？x", ""}, {"h.test＃x", ""}, {"u＠h.test", ""}, {"h＼x", ""}, {"a_b.xn--bcher-kva＃x", ""},
		{"h%2etest", "h.test"}, {"%68.t%C3%A9st", "h.xn--tst-bma"}, {"ＡＢＣ.test", "abc.test"}, {"１２７.0.0.1", "127.0.0.1"}, {"%31%32%37.%30.0.1", "127.0.0.1"}, {"0Ｘc0．0250．01", "192.168.0.1"}, {"[::1]", "[::1]"},
		{"a_b.b%C3%BCcher.ex%41mple", "a_b.xn--bcher-kva.example"}, {"％ef.test", ""}, {"%fc.test", ""}, {"%c2%ad", ""},
	} {
		got, err := Canonical("http://" + c[0] + "/")
		if want := "http://" + c[1] + "/"; c[1] != "" && (got != want || err != nil) || c[1] == "" && err == nil {
			t.Errorf("%s: %q, want %q (%v)", c[0], got, c[1], err)
		}
	}
}

// TestNumbersHaveNoSigns: a number with a sign is no part of an IPv4 address, and so no host is one.
func TestNumbersHaveNoSigns(t *testing.T) {
	for _, host := range []string{"+1.2.3.4", "-1.2.3.4", "1.-2.3.4", "1.2.3.-4", "1.2.3.-4.", "+2130706433", "-1", "%2B1.2.3.4", "0x-1", "0X+7f.1", "0-1", "1.0-1", "－1.2.3.4", "%2D1.1", "a_b.xn--bcher-kva.-1"} {
		if got, err := Canonical("http://" + host + "/"); err == nil {
			t.Errorf("%s: %s", host, got)
		}
	}
	for host, want := range map[string]string{"-a.test": "-a.test", "1-2.test": "1-2.test", "a-1.0x7f-.test": "a-1.0x7f-.test", "0x": "0.0.0.0", "1.0x1": "1.0.0.1", "-a-.b-c.test.": "-a-.b-c.test"} {
		if got, err := Canonical("http://" + host + "/"); got != "http://"+want+"/" {
			t.Errorf("%s: %s, %v", host, got, err)
		}
	}
}

// TestNoEmptyPunycode: a label "xn--" without a code behind it, or with letters that are not ASCII, makes a host none. It was left out or taken for its letters.
func TestNoEmptyPunycode(t *testing.T) {
	for _, host := range []string{
		"日本.xn--", "ſ.xn--", "xn--é-", "xn--é-.com", "a.b.XN--.é", "日本.ｘｎ－－", "日本。xn--", "日本.x\u00adn-\u00ad-", "%C3%A9.xn--", "a_b.xn--.é", "é.xn--ab-", "xn--é", "é.xn--é-é", "ⅹn--é-.com", "é.xn---", "xn--", "a.xn--", "xn--a-",
	} {
		if got, err := Canonical("http://" + host + "/"); err == nil {
			t.Errorf("%s: %s", host, got)
		}
	}
	for host, want := range map[string]string{
		"é.xn--tst-bma": "xn--9ca.xn--tst-bma", "é.axn--": "xn--9ca.axn--", "a-b-c.é": "a-b-c.xn--9ca", "日本.xn--bcher-kva.": "xn--wgv71a.xn--bcher-kva", "XN--BCHER-KVA.é": "xn--bcher-kva.xn--9ca", "a--é.com": "xn--a---dma.com",
	} {
		if got, err := Canonical("http://" + host + "/"); got != "http://"+want+"/" {
			t.Errorf("%s: %s, %v", host, got, err)
		}
	}
}
