package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// ErrSettings is returned for invalid limits.
var ErrSettings = errors.New("limit: bad limits")

// Settings are the limits that a volunteer sets. Zero means no limit.
type Settings struct {
	DownKiBPerS int      `koanf:"down_kib_per_s" toml:"down_kib_per_s"` // received, KiB a second, as the sockets carry them
	UpKiBPerS   int      `koanf:"up_kib_per_s" toml:"up_kib_per_s"`
	DayMiB      int      `koanf:"day_mib" toml:"day_mib"`     // received and sent in a day
	MonthMiB    int      `koanf:"month_mib" toml:"month_mib"` // in a month, which begins on a day that this computer drew
	Windows     []Window `koanf:"windows" toml:"windows"`     // other limits at certain hours of the week
	DSCPLE      bool     `koanf:"dscp_le" toml:"dscp_le"`     // mark all traffic as lower effort (RFC 8622)

	OnBattery   string `koanf:"on_battery" toml:"on_battery"`     // "pause" or "run"
	OnMetered   string `koanf:"on_metered" toml:"on_metered"`     // "pause" or "run", on a link that is paid by volume
	InUse       string `koanf:"in_use" toml:"in_use"`             // "pause" or "run", while someone uses the computer
	FullScreen  string `koanf:"full_screen" toml:"full_screen"`   // "pause" or "run", while a program fills the screen
	BusyPercent int    `koanf:"busy_percent" toml:"busy_percent"` // pause while other programs use more than this of the processors; 0: never
}

// DefaultSettings spare a laptop's battery and set no other limits.
func DefaultSettings() Settings {
	return Settings{DSCPLE: true, OnBattery: "pause", OnMetered: "pause", InUse: "run", FullScreen: "run"}
}

// Window is a part of the week with limits of its own. The general limits hold too.
type Window struct {
	Days        string `koanf:"days" toml:"days" json:"days,omitempty"` // "mon-fri", "sat,sun"; empty: every day
	From        string `koanf:"from" toml:"from" json:"from,omitempty"` // "22:00", local time
	To          string `koanf:"to" toml:"to" json:"to,omitempty"`       // "06:00"; before From: on the next day
	DownKiBPerS int    `koanf:"down_kib_per_s" toml:"down_kib_per_s" json:"down_kib_per_s,omitempty"`
	UpKiBPerS   int    `koanf:"up_kib_per_s" toml:"up_kib_per_s" json:"up_kib_per_s,omitempty"`
	Pause       bool   `koanf:"pause" toml:"pause" json:"pause,omitempty"`
}

// Policy holds the limits that a network's admin sets for all its peers. It can only tighten the volunteers' limits.
type Policy struct {
	Off          bool     `toml:"off"` // nothing is fetched at all
	DownKiBPerS  int      `toml:"down_kib_per_s"`
	UpKiBPerS    int      `toml:"up_kib_per_s"`
	DayMiB       int      `toml:"day_mib"`
	MonthMiB     int      `toml:"month_mib"`
	Windows      []Window `toml:"windows"`
	DSCPLE       bool     `toml:"dscp_le"` // true: users cannot turn the mark off
	DenyNetworks []string `toml:"deny_networks"`
	DenyDomains  []string `toml:"deny_domains"`
	Contact      string   `toml:"contact"`    // whom users may ask, shown to them
	Proxy        string   `toml:"proxy"`      // "http://proxy.example:3128": all connections to public addresses go through it
	PolicyURL    string   `toml:"policy_url"` // a further policy; read from the machine's own file only

	Why string `toml:"-"` // of Off, where the admin has not said it
}

// MaxPolicy is the maximum size of a policy in bytes.
const MaxPolicy = 64 << 10

// maxWindows bounds the windows of one source.
const maxWindows = 64

// ParsePolicy parses a policy. file names it in errors. Unknown keys are errors, because ignoring a misspelt limit would lift it.
func ParsePolicy(b []byte, file string) (Policy, error) {
	var p Policy
	if len(b) > MaxPolicy {
		return p, &Wrong{Text: fmt.Sprintf("a policy of %d bytes; want at most %d", len(b), MaxPolicy), Where: file}
	}
	if _, err := Parse(b, file, Keys(reflect.TypeFor[Policy](), "toml"), "toml"); err != nil {
		return p, err
	}
	if err := toml.Unmarshal(b, &p); err != nil { // it was parsed before
		return p, &Wrong{Text: err.Error(), Where: file}
	}
	return p, Located(p.Validate(), file, b)
}

// Validate reports what is wrong with p.
func (p *Policy) Validate() error {
	for i, n := range p.DenyNetworks {
		if _, err := netip.ParsePrefix(n); err != nil {
			return Bad(fmt.Sprintf("deny_networks[%d]", i+1), "is %q; want a network such as 198.51.100.0/24", n)
		}
	}
	for i, d := range p.DenyDomains {
		if !IsDomain(d) {
			return Bad(fmt.Sprintf("deny_domains[%d]", i+1), "is %q; want a domain such as example.org, with which everything below it is denied", d)
		}
	}
	if p.Proxy != "" {
		if _, err := parseProxy(p.Proxy); err != nil {
			return err
		}
	}
	if p.PolicyURL != "" {
		if err := CheckPolicyURL(p.PolicyURL); err != nil {
			return err
		}
	}
	s := Settings{DownKiBPerS: p.DownKiBPerS, UpKiBPerS: p.UpKiBPerS, DayMiB: p.DayMiB, MonthMiB: p.MonthMiB, Windows: p.Windows}
	return s.Validate()
}

// CheckPolicyURL reports what is wrong with the URL of a policy. Without TLS every computer on the way could answer in the admin's place,
// so http is for this computer's own addresses only.
func CheckPolicyURL(at string) error {
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return Bad("policy_url", "is %q; want https://host/path", at)
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		return Bad("policy_url", "is %q; want https://, since anyone on the way could change what comes over http (http:// is for 127.0.0.1, [::1] and localhost)", at)
	}
	return nil
}

func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Validate reports what is wrong with s.
func (s *Settings) Validate() error {
	for _, c := range []struct {
		key   string
		value int
	}{{"down_kib_per_s", s.DownKiBPerS}, {"up_kib_per_s", s.UpKiBPerS}, {"day_mib", s.DayMiB}, {"month_mib", s.MonthMiB}} {
		if err := countable(c.key, c.value); err != nil {
			return err
		}
	}
	if s.BusyPercent < 0 || s.BusyPercent > 100 {
		return Bad("busy_percent", "is %d; want 0 to 100", s.BusyPercent)
	}
	for _, c := range []struct{ key, value string }{{"on_battery", s.OnBattery}, {"on_metered", s.OnMetered}, {"in_use", s.InUse}, {"full_screen", s.FullScreen}} {
		if c.value != "" && c.value != "pause" && c.value != "run" {
			return Bad(c.key, "is %q; want pause or run", c.value)
		}
	}
	if len(s.Windows) > maxWindows {
		return Bad("windows", "are %d; want at most %d", len(s.Windows), maxWindows)
	}
	for i := range s.Windows {
		w, at := &s.Windows[i], fmt.Sprintf("windows[%d].", i+1)
		if _, err := w.parse(); err != nil {
			var inside *Wrong
			if errors.As(err, &inside) {
				return &Wrong{Key: at + inside.Key, Text: inside.Text}
			}
			return err
		}
		if err := cmp.Or(countable(at+"down_kib_per_s", w.DownKiBPerS), countable(at+"up_kib_per_s", w.UpKiBPerS)); err != nil {
			return err
		}
	}
	return nil
}

// MaxNumber is the largest number that any setting may be. Its bytes can be counted, whatever its unit.
const MaxNumber = math.MaxInt32

// countable reports a limit that is below zero, or so large that its bytes could not be counted.
func countable(key string, value int) error {
	switch {
	case value < 0:
		return Bad(key, "is %d; want 0 (no limit) or more", value)
	case value > MaxNumber:
		return Bad(key, "is %d; want 0 (no limit) to %d", value, MaxNumber)
	}
	return nil
}

// span is a parsed window: minutes of a day, and days of the week.
type span struct {
	days     [7]bool // Sunday first
	from, to int
}

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (w *Window) parse() (s span, err error) {
	if s.from, err = clock("from", w.From, 0); err != nil {
		return s, err
	}
	if s.to, err = clock("to", w.To, 24*60); err != nil {
		return s, err
	}
	if w.Days == "" {
		s.days = [7]bool{true, true, true, true, true, true, true}
		return s, nil
	}
	for part := range strings.SplitSeq(strings.ToLower(w.Days), ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, b := day(first), day(first)
		if isRange {
			b = day(last)
		}
		if a < 0 || b < 0 {
			return s, Bad("days", "is %q; want mon-fri or sat,sun", w.Days)
		}
		for d := a; ; d = (d + 1) % 7 {
			s.days[d] = true
			if d == b {
				break
			}
		}
	}
	return s, nil
}

func day(name string) int {
	for i, n := range dayNames {
		if strings.TrimSpace(name) == n {
			return i
		}
	}
	return -1
}

func clock(key, text string, empty int) (int, error) {
	if text == "" {
		return empty, nil
	}
	h, m, ok := strings.Cut(text, ":")
	hours, err1 := strconv.Atoi(h)
	minutes, err2 := strconv.Atoi(m)
	if !ok || err1 != nil || err2 != nil || hours < 0 || hours > 24 || minutes < 0 || minutes > 59 || hours == 24 && minutes > 0 {
		return 0, Bad(key, "is %q; want a time such as 22:00", text)
	}
	return hours*60 + minutes, nil
}

// at reports whether a moment of local time is in the span.
func (s *span) at(now time.Time) bool {
	minute, d := now.Hour()*60+now.Minute(), int(now.Weekday())
	if s.from < s.to {
		return s.days[d] && minute >= s.from && minute < s.to
	}
	return s.days[d] && minute >= s.from || s.days[(d+6)%7] && minute < s.to
}
