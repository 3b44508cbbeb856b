package e2e

import (
	"fmt"
	"net/netip"
	"strings"
)

// The addresses of the volunteer's network in TestInside.
const (
	homeFour, homeSix        = "192.168.7.2", "2a00:1450:1:a5::20"
	homeRented, homeULA      = "81.2.69.160", "fd12:3456::20"
	homeLink                 = "fe80::20"
	gateFour, gateSix        = "192.168.7.3", "2a00:1450:1:a5::1"
	gateRented, gateLink     = "81.2.69.161", "fe80::1"
	storeFour, storeSix      = "192.168.7.30", "2a00:1450:1:a5::30" // another computer of the home
	storeRented, storeULA    = "81.2.69.165", "fd12:3456::30"
	storeFar                 = "2a00:1450:1:a6::30" // in another network of the home
	learntNAT64, siteISATAP  = "2a00:9999::/96", "2a03:1:2:3:"
	vpnFour, vpnSix          = "12.34.56.7", "2a0c:77::7"      // in a company's networks, to which the computer has routes
	vpnTable, vpnSame        = "12.34.57.7", "12.34.58.7"      // the same, in a table of its own, and by the way that all else goes
	routerFour, routerSix    = "11.0.3.1", "2a00:1450:1:a0::1" // under which others see the home
	memberFour, managerFour  = "11.0.4.1", "11.0.9.1"
	attackerFour, evilDomain = "11.0.1.1", ".evil.example"
	attackerSix              = "2600:1::1"
)

// spelled are the ways to write addresses of the volunteer's network as the host of a URL. What one host can show in one
// document is tried with all of them. The first of them, as many as alone, are also tried each by a host or a path of its
// own.
func spelled() (all []string, alone int) {
	all = spellFour(storeFour)
	for _, six := range []string{homeSix, gateSix, storeSix, storeFar, homeULA, storeULA, homeLink, gateLink, "::1", "::", routerSix, vpnSix, "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "100::1"} {
		all = append(all, "["+six+"]")
	}
	all = append(all, "["+gateLink+"%25eth0]", "["+strings.ToUpper(storeSix)+"]",
		homeFour, gateFour, homeRented, gateRented, routerFour, managerFour, memberFour, vpnFour, vpnTable, vpnSame, "10.0.0.1", "172.31.255.254", "100.64.0.1", "169.254.169.254", "168.63.129.16",
		"192.0.0.192", "0", "127.1", "0x7f000001", "localhost", "LOCALHOST.", "nas.localhost")
	alone = len(all)
	for _, four := range []string{"127.0.0.1", storeRented, memberFour} {
		all = append(all, spellFour(four)...)
	}
	all = append(all, "["+netip.MustParseAddr(storeSix).StringExpanded()+"]", "["+gateLink+"%eth0]", "["+homeLink+"%25lo]", "172.16.0.1", "198.18.0.1", "0.0.0.0", "127.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"100.100.100.200", "localhost.localdomain", "nas.local", "router.lan", "printer.home.arpa", "metadata.google.internal")
	return all, alone
}

// spellFour writes an IPv4 address in every way that some program reads.
func spellFour(addr string) []string {
	b := netip.MustParseAddr(addr).As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	high, low := fmt.Sprintf("%x", n>>16), fmt.Sprintf("%x", n&0xffff)
	wide := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r - '0' + '０'
		}
		return r
	}, addr)
	return []string{
		addr, addr + ".", fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0x%x.%d.0%o.%d", b[0], b[1], b[2], b[3]), fmt.Sprintf("0x%x.%d", b[0], n&0xffffff), fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		strings.ReplaceAll(addr, ".", "%2e"), strings.ReplaceAll(addr, ".", "。"), strings.ReplaceAll(addr, ".", "．"), wide,
		fmt.Sprintf("%%%02x%s", addr[0], addr[1:]), addr[:2] + "\t" + addr[2:], addr[:2] + "\u00ad" + addr[2:],
		"user:pw@" + addr, "www.example.org@" + addr, "www.example.org:80@" + addr, "www.example.org%2f@" + addr, addr + ":80", addr + ":0080", addr + ":8080", addr + ":",
		"[::ffff:" + addr + "]", "[::ffff:" + high + ":" + low + "]", "[0:0:0:0:0:ffff:" + high + ":" + low + "]", "[::" + addr + "]", "[::ffff:0:" + addr + "]",
		"[64:ff9b::" + addr + "]", "[64:ff9b::" + high + ":" + low + "]", "[64:ff9b:1::" + addr + "]", "[2a00:9999::" + high + ":" + low + "]",
		"[2002:" + high + ":" + low + "::1]", fmt.Sprintf("[2001:0:4136:e378:8000:63bf:%x:%x]", 0xffff^n>>16, 0xffff^n&0xffff),
		"[" + siteISATAP + "0:5efe:" + addr + "]", "[" + siteISATAP + "200:5efe:" + addr + "]", "[fe80::5efe:" + addr + "]",
	}
}

// route is a way in which a host of the Web may point a peer elsewhere. list is true if one document shows all targets,
// else each target has a path of its own.
type route struct {
	name string
	list bool
	how  func(authority string) string // the piece of the document, or the Location
}

func plainURL(authority string) string { return "http://" + authority + "/inside" }

// routes are the ways that one host of the attacker tries with every spelling.
var routes = []route{
	{"link", true, func(a string) string { return fmt.Sprintf("<a href=\"%s\">x</a>\n", plainURL(a)) }},
	{"frame", true, func(a string) string { return fmt.Sprintf("<iframe src=\"%s\"></iframe>\n", plainURL(a)) }},
	{"link without scheme", true, func(a string) string {
		return fmt.Sprintf("<a href=\"//%s/inside\">x</a><area href=\"\\\\%s\\inside\">\n", a, a)
	}},
	{"link in the head", true, func(a string) string {
		return fmt.Sprintf("<link rel=\"next canonical alternate stylesheet\" href=\"%s\">\n", plainURL(a))
	}},
	{"sitemap entry", true, func(a string) string { return "<url><loc>" + plainURL(a) + "</loc></url>\n" }},
	{"sitemap index", true, func(a string) string { return "<sitemap><loc>" + plainURL(a) + "</loc></sitemap>\n" }},
	{"Sitemap in robots.txt", true, func(a string) string { return "Sitemap: " + plainURL(a) + "\n" }},
	{"feed entry", true, func(a string) string { return "<item><link>" + plainURL(a) + "</link></item>\n" }},
	{"redirect of a page", false, plainURL},
	{"redirect without scheme", false, func(a string) string { return "//" + a + "/inside" }},
	{"redirect with backslashes", false, func(a string) string { return "http:\\\\" + a + "\\inside" }},
	{"base and refresh", false, func(a string) string {
		return fmt.Sprintf("<base href=\"%s\"><meta http-equiv=refresh content=\"0;url=%s\"><a href=\"below\">x</a>", plainURL(a), plainURL(a))
	}},
}

// rebound are names whose answers change or mix, by what is tried.
func rebound() map[string][]dnsAnswer {
	out := map[string][]dnsAnswer{}
	public := dnsAnswer{addrs: []string{attackerFour}}
	for i, to := range []string{storeFour, "127.0.0.1", gateFour, storeRented, storeSix, storeFar, "::1", homeSix, "169.254.169.254", memberFour} {
		inside := dnsAnswer{addrs: []string{to}}
		for how, list := range map[string][]dnsAnswer{
			"rebound":       {public, inside},
			"rebound-later": {public, public, public, public, inside},
			"mixed":         {{addrs: []string{attackerFour, to}}},
			"mixed-first":   {{addrs: []string{to, attackerFour}}},
			"alias":         {{alias: "target-" + fmt.Sprint(i) + evilDomain, addrs: []string{to}}},
		} {
			out[fmt.Sprintf("%s-%d%s", how, i, evilDomain)] = list
		}
	}
	return out
}

// named are addresses that names of the attacker resolve to.
var named = []string{
	homeFour, gateFour, storeFour, homeRented, gateRented, storeRented, "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "100.64.0.1", "169.254.169.254", "168.63.129.16", "192.0.0.192", "198.18.0.1",
	"240.0.0.1", "255.255.255.255", homeSix, gateSix, storeSix, storeFar, homeULA, storeULA, homeLink, gateLink, "::1", "::", "::ffff:192.168.7.30", "::ffff:127.0.0.1", "64:ff9b::c0a8:71e", "64:ff9b::7f00:1",
	"64:ff9b:1::c0a8:71e", "2a00:9999::c0a8:71e", "2a00:9999::5102:45a5", "2002:c0a8:71e::1", "2002:5102:45a5::1", "2001:0:4136:e378:8000:63bf:3f57:f8e1", siteISATAP + "0:5efe:c0a8:71e", siteISATAP + "200:5efe:5102:45a5",
	routerFour, routerSix, memberFour, managerFour, vpnFour, vpnSix, vpnTable, vpnSame, "64:ff9b::c22:3807", "64:ff9b::b00:401", "fd00:ec2::254", "fec0::1", "::c0a8:71e",
}

// closedPorts are ports of services that are not the Web's. They are tried at the attacker's own public address.
var closedPorts = []int{21, 22, 23, 25, 81, 110, 143, 445, 631, 1433, 1883, 2049, 2375, 2379, 3000, 3306, 3389, 5432, 5601, 5672, 5984, 6379, 6443, 7001, 8001, 8006, 8009, 8086, 8123, 8200, 8500, 8728, 9000, 9092, 9200, 10250, 11211, 27017, 32400, 49152}

// pointing are header fields of every answer of the attacker that name a place inside.
var pointing = map[string]string{
	"Alt-Svc":           `h2="` + storeFour + `:443"; ma=86400; persist=1, h3="[` + storeSix + `]:443", http/1.1="` + gateFour + `:8080"`,
	"Alternates":        `{"http://` + storeFour + `/inside" 1 {type text/html}}`,
	"Content-Location":  "http://" + storeFour + "/inside",
	"Link":              "<http://" + storeFour + "/inside>; rel=preload, <http://" + gateFour + ":8080/inside>; rel=next",
	"Refresh":           "0; url=http://" + storeFour + "/inside",
	"Report-To":         `{"group":"g","max_age":9,"endpoints":[{"url":"https://` + storeFour + `/inside"}]}`,
	"Nel":               `{"report_to":"g","max_age":9,"failure_fraction":1,"success_fraction":1}`,
	"Sourcemap":         "http://" + storeFour + "/inside",
	"X-Accel-Redirect":  "http://" + storeFour + "/inside",
	"Proxy":             "http://" + storeFour + ":8080",
	"Uri":               "<http://" + storeFour + "/inside>",
	"Proxy-Connection":  "keep-alive",
	"Speculation-Rules": `"http://` + storeFour + `/inside"`,
}

// proxies are variables of the environment that send other programs through a proxy.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "FTP_PROXY", "SOCKS_PROXY"}
