package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cap is one limit in force, and who set it.
type Cap struct {
	Value     int    `json:"value"`               // 0: none
	Source    string `json:"source,omitempty"`    // of the value
	Overruled *Wish  `json:"overruled,omitempty"` // what the volunteer set, where an admin's policy is stricter
}

// Wish is a limit that a volunteer has set and that does not hold.
type Wish struct {
	Value  int    `json:"value"` // 0: no limit
	Source string `json:"source"`
}

// Scheduled is a window of the week and who set it.
type Scheduled struct {
	Window
	Source string `json:"source"`
	Now    bool   `json:"now"` // it holds at this moment
}

// tighten takes another source's limit if it is stricter.
func (c *Cap) tighten(value int, source string) {
	if value > 0 && (c.Value == 0 || value < c.Value) {
		c.Value, c.Source = value, source
	}
}

// wished notes that a volunteer's own limit does not hold, if it was set and a policy is stricter.
func (c *Cap) wished(own Cap, set bool) {
	if set && c.Value != own.Value {
		c.Overruled = &Wish{own.Value, own.Source}
	}
}

// Force holds the limits in force at a moment: for each limit the strictest of all sources.
type Force struct {
	DownKiBPerS Cap       `json:"down_kib_per_s"`
	UpKiBPerS   Cap       `json:"up_kib_per_s"`
	DayMiB      Cap       `json:"day_mib"`
	MonthMiB    Cap       `json:"month_mib"`
	Reason      Reason    `json:"-"`                     // of Paused, for translation
	Paused      string    `json:"paused,omitempty"`      // why the peer fetches nothing now, and who said so; empty: it fetches
	Until       time.Time `json:"paused_until,omitzero"` // as far as it is known
	DSCPLE      bool      `json:"dscp_le"`
	DSCPSource  string    `json:"dscp_source,omitempty"`
	Contact     string    `json:"contact,omitempty"` // of the admin
	Proxy       string    `json:"-"`                 // that everything goes through; it may hold a password
	ProxyAt     string    `json:"proxy,omitempty"`   // the same without
	ProxySource string    `json:"proxy_source,omitempty"`

	Schedule []Scheduled `json:"schedule,omitempty"`
}

// PolicyUnread is why nothing is fetched while a policy cannot be read.
const PolicyUnread = "a policy cannot be read"

// Reason says why the limits pause the peer, and who set that.
type Reason struct{ Why, Source string }

// Ban is a domain or network that the peer does not fetch, and who said so.
type Ban struct {
	What   string `json:"what"`
	Source string `json:"source"`
}

// Limits combines sources. It is safe for concurrent use.
type Limits struct {
	mu       sync.Mutex
	user     Settings
	userFrom string
	from     map[string]string // of single settings, by their names
	policies []named
	session  Settings // until the process ends
	kept     Settings // the rates as the volunteer's file has them, where session has others
	usage    *Usage
}

type named struct {
	name   string
	policy Policy
}

// New returns limits from a volunteer's settings. source names them: "your settings in
// /home/ada/.config/shoal/peer.toml".
func New(s Settings, source string, u *Usage) *Limits {
	return &Limits{user: s, kept: s, userFrom: source, usage: u}
}

// SetSources names the sources of single settings, keyed by their names in a configuration file, where they differ
// from the source of all.
func (l *Limits) SetSources(from map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = from
}

// SetPolicy sets an admin's policy under the name of its source. A nil policy removes it.
func (l *Limits) SetPolicy(name string, p *Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.policies = slices.DeleteFunc(l.policies, func(n named) bool { return n.name == name })
	if p != nil {
		l.policies = append(l.policies, named{name, *p})
		slices.SortFunc(l.policies, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	}
}

// SetSession sets rates for the life of the process, in place of the volunteer's own. It cannot loosen a policy. A
// negative rate changes nothing.
func (l *Limits) SetSession(down, up int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if down >= 0 {
		l.user.DownKiBPerS, l.session.DownKiBPerS = down, 1
	}
	if up >= 0 {
		l.user.UpKiBPerS, l.session.UpKiBPerS = up, 1
	}
}

// Inherit takes over the session's rates of the limits that were in force before these, unless a rate itself is another one now.
func (l *Limits) Inherit(before *Limits) {
	before.mu.Lock()
	user, session, kept := before.user, before.session, before.kept
	before.mu.Unlock()
	l.mu.Lock()
	is := l.kept
	l.mu.Unlock()
	down, up := -1, -1
	if session.DownKiBPerS != 0 && kept.DownKiBPerS == is.DownKiBPerS {
		down = user.DownKiBPerS
	}
	if session.UpKiBPerS != 0 && kept.UpKiBPerS == is.UpKiBPerS {
		up = user.UpKiBPerS
	}
	l.SetSession(down, up)
}

// Replace puts other settings of the volunteer's in force. A rate of SetSession's stays, unless that rate itself is another one now.
func (l *Limits) Replace(s Settings, from map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, file := l.user, l.kept
	l.user, l.kept, l.from = s, s, from
	for _, r := range []struct{ session, user, was, file, now *int }{
		{&l.session.DownKiBPerS, &l.user.DownKiBPerS, &was.DownKiBPerS, &file.DownKiBPerS, &s.DownKiBPerS},
		{&l.session.UpKiBPerS, &l.user.UpKiBPerS, &was.UpKiBPerS, &file.UpKiBPerS, &s.UpKiBPerS},
	} {
		if *r.file != *r.now {
			*r.session = 0
		} else if *r.session != 0 {
			*r.user = *r.was
		}
	}
}

// Try returns limits with other settings of the volunteer's under the same policies, to see what would hold after Replace. Budgets are not used up there.
func (l *Limits) Try(s Settings, from map[string]string) *Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &Limits{user: l.user, kept: l.kept, session: l.session, userFrom: l.userFrom, policies: slices.Clone(l.policies)}
	t.Replace(s, from)
	return t
}

// Settings returns the volunteer's own settings.
func (l *Limits) Settings() Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user
}

// At returns the limits in force at a moment.
func (l *Limits) At(now time.Time) Force {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.own(now)
	own := f
	for i := range l.policies {
		f.obey(now, &l.policies[i].policy, "policy from "+Shown(l.policies[i].name))
	}
	for _, c := range []struct {
		cap  *Cap
		own  Cap
		wish Cap
		key  string
		once bool
	}{
		{&f.DownKiBPerS, own.DownKiBPerS, Cap{Value: l.user.DownKiBPerS, Source: l.source("down_kib_per_s", l.session.DownKiBPerS)}, "down_kib_per_s", l.session.DownKiBPerS != 0},
		{&f.UpKiBPerS, own.UpKiBPerS, Cap{Value: l.user.UpKiBPerS, Source: l.source("up_kib_per_s", l.session.UpKiBPerS)}, "up_kib_per_s", l.session.UpKiBPerS != 0},
		{&f.DayMiB, own.DayMiB, Cap{Value: l.user.DayMiB, Source: l.source("day_mib", 0)}, "day_mib", false},
		{&f.MonthMiB, own.MonthMiB, Cap{Value: l.user.MonthMiB, Source: l.source("month_mib", 0)}, "month_mib", false},
	} {
		if c.cap.Source != c.own.Source { // a policy's
			c.cap.wished(c.wish, c.once || l.from[c.key] != "")
		}
	}
	spentDay, spentMonth := false, false
	if l.usage != nil {
		day, month := l.usage.Used(now)
		spentDay, spentMonth = spent(f.DayMiB, day), spent(f.MonthMiB, month)
	}
	if spentDay {
		f.pause("the day's budget is used up", f.DayMiB.Source)
	}
	if spentMonth {
		f.pause("the month's budget is used up", f.MonthMiB.Source)
	}
	if f.Paused != "" {
		f.Until = l.ends(now, spentDay, spentMonth)
	}
	return f
}

// spent reports whether a budget is used up.
func spent(c Cap, bytes int64) bool { return c.Value > 0 && bytes >= int64(c.Value)<<20 }

// source names who set a limit of the volunteer's. session is not 0 where that was the command line, for as long as the process lives.
func (l *Limits) source(key string, session int) string {
	if session != 0 {
		return "shoal-peer limit"
	}
	return cmp.Or(l.from[key], l.userFrom)
}

// own returns the volunteer's own limits.
func (l *Limits) own(now time.Time) (f Force) {
	u := &l.user
	f.DownKiBPerS.tighten(u.DownKiBPerS, l.source("down_kib_per_s", l.session.DownKiBPerS))
	f.UpKiBPerS.tighten(u.UpKiBPerS, l.source("up_kib_per_s", l.session.UpKiBPerS))
	f.DayMiB.tighten(u.DayMiB, l.source("day_mib", 0))
	f.MonthMiB.tighten(u.MonthMiB, l.source("month_mib", 0))
	if u.DSCPLE {
		f.DSCPLE, f.DSCPSource = true, l.source("dscp_le", 0)
	}
	f.windows(now, u.Windows, l.source("windows", 0))
	return f
}

// obey tightens the limits by a policy.
func (f *Force) obey(now time.Time, p *Policy, source string) {
	f.DownKiBPerS.tighten(p.DownKiBPerS, source)
	f.UpKiBPerS.tighten(p.UpKiBPerS, source)
	f.DayMiB.tighten(p.DayMiB, source)
	f.MonthMiB.tighten(p.MonthMiB, source)
	f.windows(now, p.Windows, source)
	if p.DSCPLE {
		f.DSCPLE, f.DSCPSource = true, source
	}
	if p.Off {
		f.pause(cmp.Or(p.Why, "turned off"), source)
	}
	if p.Contact != "" {
		f.Contact = p.Contact
	}
	if p.Proxy != "" && f.Proxy == "" { // the first by the names of where they come from
		f.Proxy, f.ProxySource = p.Proxy, source
		if u, err := parseProxy(p.Proxy); err == nil {
			f.ProxyAt = u.Redacted()
		}
	}
}

func (f *Force) windows(now time.Time, ws []Window, source string) {
	for i := range ws {
		w := &ws[i]
		s, err := w.parse()
		if err != nil {
			continue
		}
		in := s.at(now)
		f.Schedule = append(f.Schedule, Scheduled{Window: *w, Source: source, Now: in})
		if !in {
			continue
		}
		name := fmt.Sprintf("%s, window %s", source, w.Span())
		f.DownKiBPerS.tighten(w.DownKiBPerS, name)
		f.UpKiBPerS.tighten(w.UpKiBPerS, name)
		if w.Pause {
			f.pause("not at this hour", name)
		}
	}
}

// Span words the hours of a window: "mon-fri 08:00-18:00".
func (w *Window) Span() string {
	return fmt.Sprintf("%s %s-%s", cmp.Or(w.Days, "every day"), cmp.Or(w.From, "00:00"), cmp.Or(w.To, "24:00"))
}

func (f *Force) pause(why, source string) {
	if f.Paused == "" {
		f.Paused, f.Reason = why+" ("+source+")", Reason{why, source}
	}
}

// Denied lists the volunteer's own denied domains, with source as their source, and then what policies deny.
func (l *Limits) Denied(own []string, source string) (out []Ban) {
	for _, d := range own {
		out = append(out, Ban{d, source})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.policies {
		p := &l.policies[i]
		for _, d := range append(slices.Clone(p.policy.DenyDomains), p.policy.DenyNetworks...) {
			out = append(out, Ban{d, "policy from " + Shown(p.name)})
		}
	}
	return out
}

// Denies returns an error if a policy forbids a domain. The error says which.
func (l *Limits) Denies(domain string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.policies {
		if d := InDomains(domain, l.policies[i].policy.DenyDomains); d != "" {
			return fmt.Errorf("%w: %s is denied by the policy from %s", ErrForbidden, d, Shown(l.policies[i].name))
		}
	}
	return nil
}

// windowPart sets the TCP window of a limited connection to this part of a second's bytes. The kernel receives that
// much before our pacing sees it.
const windowPart = 24

// Socket prepares a socket before it connects or listens: it sets the mark that the limits ask for, and a small TCP
// window if the rate is limited.
func (f *Force) Socket(network, addr string, c syscall.RawConn) error {
	if f.DSCPLE {
		if err := MarkLE(network, addr, c); err != nil {
			return err
		}
	}
	if kib := f.DownKiBPerS.Value; kib > 0 && !strings.HasPrefix(network, "udp") {
		return SmallWindow(c, min(max(kib<<10/windowPart, 4<<10), 256<<10))
	}
	return nil
}
