package main

import (
	"strings"
	"testing"
	"time"

	"shoal/peer/crawl"
	"shoal/peer/words"
)

// TestWebLost: a peer that reaches no site says so and why, though it is connected to the company; a site that fails alone says nothing.
func TestWebLost(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.Local)
	type visit struct {
		host, kind string
		status     int
	}
	for name, c := range map[string]struct {
		visits []visit
		want   string
	}{
		"nothing":                  {nil, ""},
		"one site":                 {[]visit{{"a", "dns-timeout", 0}, {"a", "dns-timeout", 0}, {"a", "dns", 0}}, ""},
		"the name server hangs":    {[]visit{{"a", "", 200}, {"a", "dns-timeout", 0}, {"b", "dns-timeout", 0}}, "No name of a Web site is found since 07:59"},
		"an answer between":        {[]visit{{"a", "dns-timeout", 0}, {"c", "", 404}, {"b", "dns-timeout", 0}}, ""},
		"an error with an answer":  {[]visit{{"a", "dns", 0}, {"b", "dns", 0}, {"c", "timeout", 200}}, ""},
		"a name that is not there": {[]visit{{"a", "dns", 0}, {"b", "dns", 0}, {"c", "dns-not-found", 0}}, ""},
		"leases":                   {[]visit{{"a", "dns", 0}, {"d", "no-lease", 0}, {"b", "dns", 0}}, "No name of a Web site"},
		"the proxy":                {[]visit{{"a", "proxy", 0}, {"b", "proxy", 0}}, "The proxy does not answer since 07:59, for 2 sites."},
		"three sites down":         {[]visit{{"a", "refused", 0}, {"b", "timeout", 0}, {"c", "unreachable", 0}}, ""},
		"a page to log in":         {[]visit{{"a", "forbidden-address", 0}, {"b", "forbidden-address", 0}, {"c", "forbidden-address", 0}, {"d", "forbidden-address", 0}}, "The names of all 4 Web sites that were tried since 07:59 lead"},
		"sites that are inside":    {[]visit{{"a", "forbidden-address", 0}, {"b", "forbidden-address", 0}, {"e", "", 404}, {"c", "forbidden-address", 0}, {"d", "forbidden-address", 0}}, ""},
		"a firewall":               {[]visit{{"a", "refused", 0}, {"b", "timeout", 0}, {"c", "unreachable", 0}, {"d", "timeout", 0}}, "No Web site was reached since 07:59, of 4 that were tried"},
	} {
		var l webLost
		for _, v := range c.visits {
			l.visit(crawl.Visit{URL: "http://" + v.host + "/robots.txt", At: now.Add(-time.Minute), Kind: v.kind, Status: v.status})
		}
		got := ""
		if says := l.says(now); says.Key != "" {
			got = says.In(words.English)
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestWebLostIsForgotten: a peer that has asked no site for an hour does not say that none is reached.
func TestWebLostIsForgotten(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.Local)
	var l webLost
	for _, host := range []string{"a", "b"} {
		l.visit(crawl.Visit{URL: "http://" + host + "/", At: now, Kind: "dns-timeout"})
	}
	if l.says(now.Add(50*time.Minute)).Key == "" {
		t.Error("nothing is said after 50 minutes")
	}
	if says := l.says(now.Add(70 * time.Minute)); says.Key != "" {
		t.Errorf("after 70 minutes: %s", says.In(words.English))
	}
}
