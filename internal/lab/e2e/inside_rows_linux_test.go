package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager/desk"
)

// insideCase is one row: a way to the inside.
type insideCase struct {
	route, to string
	seed      string // of the channel that tries it
	shown     string // host and path that the peer must have fetched for the row to mean something; empty: the task itself tries
	asked     string // or a name that it must have asked for
}

// cases is the table.
func (v *village) cases() (out []insideCase) {
	all, alone := spelled()
	for i, to := range all[:alone] {
		out = append(out, insideCase{route: "task", to: to, seed: plainURL(to)})
		host := fmt.Sprintf("robots-%d%s", i, evilDomain)
		out = append(out, insideCase{route: "redirect of robots.txt", to: to, seed: "http://" + host + "/", shown: host + "/robots.txt"})
	}
	for n, r := range routes {
		for k, to := range all {
			if !r.list && k >= alone {
				break
			}
			host, path := fmt.Sprintf("route-%d%s", n, evilDomain), "/"
			switch {
			case !r.list:
				host, path = fmt.Sprintf("route-%d-%d%s", n, k/perHost, evilDomain), fmt.Sprintf("/to/%d", k)
			case r.name == "Sitemap in robots.txt":
				path = "/robots.txt"
			case strings.HasPrefix(r.name, "sitemap"), r.name == "feed entry":
				path = "/map.xml"
			}
			out = append(out, insideCase{route: r.name, to: to, seed: "http://" + host + "/", shown: host + path})
		}
	}
	for i, to := range named {
		host := fmt.Sprintf("named-%d%s", i, evilDomain)
		out = append(out, insideCase{route: "name", to: to, seed: "http://" + host + "/", asked: host})
	}
	for host, list := range rebound() {
		last := list[len(list)-1].addrs
		out = append(out, insideCase{route: "changing name " + host[:strings.LastIndex(host[:len(host)-len(evilDomain)], "-")], to: strings.Join(last, ","), seed: "http://" + host + "/", asked: host})
	}
	for _, port := range closedPorts {
		to := fmt.Sprintf("%s:%d", attackerFour, port)
		out = append(out, insideCase{route: "task", to: to, seed: fmt.Sprintf("http://open%s:%d/", evilDomain, port)})
		host := fmt.Sprintf("ports-%d%s", port, evilDomain)
		out = append(out, insideCase{route: "redirect of robots.txt", to: to, seed: "http://" + host + "/", shown: host + "/robots.txt"})
	}
	plain := "plain" + evilDomain
	for name, value := range pointing {
		out = append(out, insideCase{route: "header " + name, to: value, seed: "http://" + plain + "/", shown: plain + "/"})
	}
	for _, name := range proxies {
		out = append(out, insideCase{route: "variable " + name, to: storeFour + ":8080", seed: "http://" + plain + "/", shown: plain + "/"})
	}
	for _, code := range redirectCodes {
		host := "codes" + evilDomain
		out = append(out, insideCase{route: fmt.Sprint("Location with status ", code), to: storeFour, seed: "http://" + host + "/", shown: fmt.Sprintf("%s/to/%d", host, code)})
	}
	covering := "covering" + evilDomain
	out = append(out, insideCase{route: "certificate for two names over HTTP/2", to: "covered" + evilDomain, seed: "https://" + covering + "/", shown: covering + "/next"},
		insideCase{route: "task of the other name", to: "covered" + evilDomain, seed: "https://covered" + evilDomain + "/", asked: "covered" + evilDomain})
	slices.SortStableFunc(out, func(a, b insideCase) int { return strings.Compare(a.route, b.route) })
	return out
}

// origins are the hosts of the tasks that try the cases: those that an operator's page refuses, and the others.
func origins(cases []insideCase) (private, public []string) {
	for _, c := range cases {
		u, err := channel.Canonical(c.seed)
		if err != nil {
			continue
		}
		o := channel.Origin(u)
		if desk.PublicHost(o) != nil {
			private = append(private, o)
		} else {
			public = append(public, o)
		}
	}
	slices.Sort(private)
	slices.Sort(public)
	return slices.Compact(private), slices.Compact(public)
}

// putPrivate writes channels that the manager would refuse into its database.
func (v *village) putPrivate(origins []string) {
	v.data = v.t.TempDir()
	db, err := badgerdb.Open(v.t.Context(), badgerdb.Default(filepath.Join(v.data, "channels")))
	v.must(err)
	defer func() { v.must(db.Close()) }()
	e, err := db.Take(v.t.Context())
	v.must(err)
	got, err := db.Import(v.t.Context(), e, func(yield func(channel.Line) bool) {
		for i, o := range origins {
			scope, seed, err := channel.ScopeOf(o + "/")
			v.must(err)
			if !yield(channel.Line{N: i + 1, Channel: channel.Channel{Scope: scope, Seeds: []string{seed}, Added: time.Now()}}) {
				return
			}
		}
	})
	v.must(err)
	if got.Added != len(origins) {
		v.t.Fatalf("%d of %d channels written", got.Added, len(origins))
	}
}

// crawlAll hands the tasks out and waits until each has ended once.
func (v *village) crawlAll(private, public []string) {
	v.post("/api/v1/channels/import?format=list", strings.Join(public, "/\n")+"/\n")
	began := time.Now()
	all := slices.Concat(private, public)
	left := []string{}
	defer func() {
		if len(left) > 0 {
			v.t.Logf("%d tasks have not ended: %v", len(left), left[:min(len(left), 20)])
		}
	}()
	var asked time.Time
	v.mgr.within(6*time.Minute, "has every task tried", func() bool {
		time.Sleep(time.Second) // hundreds of rows are work for the manager, too
		results := v.results()
		left = slices.DeleteFunc(slices.Clone(all), func(o string) bool { return results[o].Last != "" })
		if len(left) > 0 && time.Since(asked) > 5*time.Second { // a task that the peer had no room for waits long
			asked = time.Now()
			for _, o := range left {
				v.crawlAgain(results[o])
			}
		}
		return len(left) == 0
	})
	v.t.Logf("%d tasks in %v", len(all), time.Since(began).Round(time.Second))
}

// crawlUnshown crawls hosts again whose rows tried nothing: a request may have come to nothing on a busy machine. What is left then is judge's.
func (v *village) crawlUnshown(cases []insideCase) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Second) {
		hosts := map[string]bool{}
		for _, c := range cases {
			if u, err := channel.Canonical(c.seed); err == nil && v.unshown(c) != "" {
				hosts[channel.Origin(u)] = true
			}
		}
		if len(hosts) == 0 {
			return
		}
		results := v.results()
		for o := range hosts {
			v.crawlAgain(results[o])
		}
	}
}

// crawlAgain hands a task out that is not out. A result that could not be read names no channel.
func (v *village) crawlAgain(r result) {
	if r.id != 0 && !r.out {
		v.crawl(r.id)
	}
}

// unshown says why a row has tried nothing; empty: it has.
func (v *village) unshown(c insideCase) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case c.shown != "" && v.fetched[c.shown] == 0:
		return "NOT SHOWN"
	case c.asked != "" && v.names.count(c.asked) == 0:
		return "NOT ASKED FOR"
	}
	return ""
}

type result struct {
	id          uint64
	out         bool // its task is
	Last, Error string
}

// results is what became of each channel, by origin.
func (v *village) results() map[string]result {
	out := map[string]result{}
	rows, err := v.page.rows()
	if err != nil {
		return out
	}
	for _, r := range rows {
		o := r.Host
		if !strings.Contains(o, "://") {
			o = "https://" + o
		}
		out[o] = result{uint64(r.ID), r.Out, r.Last, r.Error}
	}
	return out
}

// judge prints a verdict for each row, and fails for connections that went inside and for rows that tried nothing.
func (v *village) judge(cases []insideCase) {
	tried := v.tried()
	allowed := map[netip.AddrPort]bool{}
	for _, at := range []string{
		managerFour + ":7785", memberFour + ":7802", // the members' protocol
		"127.0.0.1:7781", // the volunteer's own commands, which this test gave
		"9.0.4.1:80",     // what 011.000.004.001 means in a URL, where zeros lead octal numbers
	} {
		allowed[netip.MustParseAddrPort(at)] = true
	}
	for _, a := range []string{attackerFour, attackerSix} {
		for _, port := range []uint16{53, 80, 443, 8000} {
			allowed[netip.AddrPortFrom(netip.MustParseAddr(a), port)] = true
		}
	}
	bad := 0
	for at, n := range tried {
		if !allowed[at] {
			bad += n
			v.t.Errorf("%d connections to %v", n, at)
		}
	}
	for what, n := range v.calls {
		if n.Load() > 0 {
			v.t.Errorf("%s was called %d times", what, n.Load())
		}
	}
	results := v.results()
	verdicts := map[string]int{}
	for _, c := range cases {
		verdict, unshown := "", v.unshown(c)
		u, err := channel.Canonical(c.seed)
		switch {
		case err != nil:
			verdict = "no task can name it"
		case unshown != "":
			verdict = unshown
		case c.shown != "":
			verdict = "shown, not dialled"
		default:
			r := results[channel.Origin(u)]
			verdict = "not dialled: " + r.Last + " " + r.Error
		}
		if strings.HasPrefix(verdict, "NOT") {
			v.t.Errorf("%s, %s: the row tries nothing: %s", c.route, c.to, verdict)
		}
		verdicts[verdict]++
		v.t.Logf("%-36s %-50q %s", c.route, c.to, verdict)
	}
	v.t.Logf("%d rows, %d connections inside; the peer called the attacker's hosts %d times over IPv4 and %d over IPv6", len(cases), bad,
		tried[netip.MustParseAddrPort(attackerFour+":80")], tried[netip.AddrPortFrom(netip.MustParseAddr(attackerSix), 80)])
	if len(cases) < 200 {
		v.t.Errorf("only %d rows", len(cases))
	}
}
