package limit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // a test's machine may have none
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // a Wednesday

func TestStrictestWins(t *testing.T) {
	l := New(Settings{DownKiBPerS: 300, UpKiBPerS: 100, DayMiB: 500}, "yours", nil)
	l.SetPolicy("file", &Policy{DownKiBPerS: 200, UpKiBPerS: 400, DSCPLE: true, Contact: "it@office.test"})
	l.SetPolicy("url", &Policy{DownKiBPerS: 250, MonthMiB: 9000})
	f := l.At(noon)
	want := Force{DownKiBPerS: Cap{200, "policy from file", nil}, UpKiBPerS: Cap{100, "yours", nil}, DayMiB: Cap{500, "yours", nil}, MonthMiB: Cap{9000, "policy from url", nil},
		DSCPLE: true, DSCPSource: "policy from file", Contact: "it@office.test"}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
	// A user cannot loosen a policy.
	for _, kib := range []int{0, 1000} {
		l.SetSession(kib, kib)
		if f := l.At(noon); f.DownKiBPerS.Value != 200 || f.UpKiBPerS.Value == 0 || f.UpKiBPerS.Value > 400 {
			t.Errorf("loosened to %+v", f)
		}
	}
	l.SetSession(50, -1)
	if f := l.At(noon); f.DownKiBPerS != (Cap{50, "shoal-peer limit", nil}) {
		t.Errorf("%+v", f.DownKiBPerS)
	}
	l.SetPolicy("file", &Policy{Off: true})
	if f := l.At(noon); f.Paused != "turned off (policy from file)" {
		t.Errorf("paused %q", f.Paused)
	}
	l.SetPolicy("file", nil)
	if f := l.At(noon); f.Paused != "" || f.DownKiBPerS.Value != 50 {
		t.Errorf("%+v", f)
	}
}

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		w      Window
		at     string // day of March 2026 and time; the 2nd is a Monday
		inside bool
	}{
		{Window{}, "02 00:00", true},
		{Window{From: "08:00", To: "18:00"}, "02 07:59", false},
		{Window{From: "08:00", To: "18:00"}, "02 08:00", true},
		{Window{From: "08:00", To: "18:00"}, "02 18:00", false},
		{Window{From: "22:00", To: "06:00"}, "02 23:00", true},
		{Window{From: "22:00", To: "06:00"}, "02 05:59", true},
		{Window{From: "22:00", To: "06:00"}, "02 12:00", false},
		{Window{Days: "mon-fri"}, "06 12:00", true},
		{Window{Days: "mon-fri"}, "07 12:00", false},
		{Window{Days: "sat,sun"}, "08 12:00", true},
		{Window{Days: "fri-mon"}, "02 12:00", true},
		{Window{Days: "fri-mon"}, "03 12:00", false},
		{Window{Days: "fri", From: "22:00", To: "06:00"}, "07 05:00", true},  // the night that began on Friday
		{Window{Days: "fri", From: "22:00", To: "06:00"}, "06 05:00", false}, // the night before
		{Window{To: "24:00", From: "23:00"}, "02 23:59", true},
	} {
		at, err := time.Parse("2006-01-02 15:04", "2026-03-"+c.at)
		if err != nil {
			t.Fatal(err)
		}
		c.w.Pause = true
		l := New(Settings{Windows: []Window{c.w}}, "yours", nil)
		if got := l.At(at).Paused != ""; got != c.inside {
			t.Errorf("%+v at %s: %v, want %v", c.w, c.at, got, c.inside)
		}
	}
}

// TestWindowsInSummerTime checks windows on the days on which an hour is missing or comes twice. The clock on the
// wall counts.
func TestWindowsInSummerTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	night := Window{Days: "sun", From: "02:00", To: "03:30", Pause: true}
	over := Window{Days: "sat", From: "22:00", To: "02:30", Pause: true}
	for _, c := range []struct {
		w      Window
		utc    string
		inside bool
	}{
		{night, "2026-03-29T00:59:59Z", false}, // 01:59:59; then 03:00
		{night, "2026-03-29T01:00:00Z", true},
		{night, "2026-03-29T01:29:59Z", true},
		{night, "2026-03-29T01:30:00Z", false},
		{night, "2026-10-24T23:59:59Z", false}, // 01:59:59
		{night, "2026-10-25T00:30:00Z", true},  // 02:30 for the first time
		{night, "2026-10-25T01:30:00Z", true},  // and for the second
		{night, "2026-10-25T02:29:59Z", true},
		{night, "2026-10-25T02:30:00Z", false},
		{over, "2026-03-29T00:59:59Z", true},
		{over, "2026-03-29T01:00:00Z", false}, // 03:00: the end has been skipped
		{over, "2026-10-25T00:29:59Z", true},  // 02:29:59
		{over, "2026-10-25T00:30:00Z", false},
		{over, "2026-10-25T01:00:00Z", true}, // 02:00 again
	} {
		at, err := time.Parse(time.RFC3339, c.utc)
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(berlin)
		if got := New(Settings{Windows: []Window{c.w}}, "yours", nil).At(at).Paused != ""; got != c.inside {
			t.Errorf("%+v at %v: %v, want %v", c.w, at, got, c.inside)
		}
	}
}

func TestBadLimits(t *testing.T) {
	for _, s := range []Settings{{DownKiBPerS: -1}, {MonthMiB: -5}, {OnBattery: "perhaps"}, {BusyPercent: 101}, {Windows: make([]Window, 65)},
		{Windows: []Window{{Days: "moonday"}}}, {Windows: []Window{{From: "25:00"}}}, {Windows: []Window{{To: "8"}}}, {Windows: []Window{{UpKiBPerS: -1}}}} {
		if err := s.Validate(); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, text := range []string{"down_kib = 1", "down_kib_per_s = -1", "deny_networks = [\"10.0.0.0\"]", "off = \"yes\"", strings.Repeat("#", MaxPolicy+1)} {
		if _, err := ParsePolicy([]byte(text), "policy.toml"); !errors.Is(err, ErrSettings) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

func TestBudgets(t *testing.T) {
	now := noon
	path := filepath.Join(t.TempDir(), "usage.json")
	u, err := OpenUsage(path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	l := New(Settings{DayMiB: 10, MonthMiB: 15}, "yours", u)
	u.add(10<<20 - 1)
	if p := l.At(now).Paused; p != "" {
		t.Error(p)
	}
	u.add(1)
	if p := l.At(now).Paused; !strings.HasPrefix(p, "the day's budget") {
		t.Error(p)
	}
	if err := u.Save(); err != nil {
		t.Fatal(err)
	}
	if u, err = OpenUsage(path, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	l = New(Settings{DayMiB: 10, MonthMiB: 15}, "yours", u)
	if p := l.At(now).Paused; p == "" {
		t.Error("forgotten by a restart")
	}
	u.u.Begins = 1
	u.u.turn(now)
	u.u.InMon = 10 << 20
	now = now.AddDate(0, 0, 1)
	if p := l.At(now).Paused; p != "" {
		t.Error(p)
	}
	u.add(5 << 20)
	if p := l.At(now).Paused; !strings.HasPrefix(p, "the month's budget") {
		t.Error(p)
	}
	if p := l.At(now.AddDate(0, 1, 0)).Paused; p != "" {
		t.Error(p)
	}
}

func TestPolicySources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if p, err := ReadPolicy(path); p != nil || err != nil {
		t.Error(p, err)
	}
	if err := os.WriteFile(path, []byte("down_kib_per_s = 7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPolicy(path); err == nil {
		t.Error("a policy that anybody may write was taken for the admin's")
	}
	if os.Getuid() == 0 {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadPolicy(path); err != nil || p.DownKiBPerS != 7 {
			t.Error(p, err)
		}
	}
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, "up_kib_per_s = 9\ndeny_domains = [\"secret.test\"]\ndeny_networks = [\"198.51.0.0/16\"]\n")
	}))
	defer srv.Close()
	p, err := FetchPolicy(t.Context(), srv.Client(), srv.URL)
	if err != nil || p.UpKiBPerS != 9 {
		t.Fatal(p, err)
	}
	l := New(Settings{}, "yours", nil)
	l.SetPolicy(srv.URL, p)
	if l.Denies("www.secret.test") == nil || l.Denies("notsecret.test") != nil {
		t.Error("deny_domains")
	}
	for _, status = range []int{404, 410} {
		if p, err := FetchPolicy(t.Context(), srv.Client(), srv.URL); p != nil || !errors.Is(err, ErrNoPolicy) {
			t.Error(p, err)
		}
	}
	status = 500
	if _, err := FetchPolicy(t.Context(), srv.Client(), srv.URL); err == nil {
		t.Error("a failing server is no policy taken away")
	}
}

// TestMeter counts what arrives under a rate, as a router would: with packet headers, over the whole time and in each
// part of it.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := net.Pipe()
		const kib, all = 800, 8 << 20
		go func() {
			defer far.Close()
			far.Write(make([]byte, all))
		}()
		m := NewMeter(nil)
		m.SetRates(kib, 0)
		w := m.Wrap(c)
		defer w.Close()
		buf := make([]byte, 64<<10)
		read := int64(0)
		begun := time.Now()
		for part := range 10 {
			start := time.Now()
			before, _ := m.Totals()
			for time.Since(start) < 250*time.Millisecond {
				n, err := w.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				read += int64(n)
			}
			got, _ := m.Totals()
			want := kib * 1024 * time.Since(start).Seconds()
			if part == 0 {
				want += leastBurst // the bucket was full
			}
			if r := float64(got-before) / want; r > 1.05 || r < .9 {
				t.Errorf("quarter second %d: %.3f of the limit", part, r)
			}
		}
		got, _ := m.Totals()
		if r := float64(got) / (kib * 1024 * time.Since(begun).Seconds()); r > 1.03 || r < .97 {
			t.Errorf("all in all %.3f of the limit", r)
		}
		m.SetRates(0, 0) // no limit any more: what was held back goes on at once
		start := time.Now()
		if n, err := io.Copy(io.Discard, w); err != nil || n+read != all {
			t.Fatalf("%d bytes, %v", n+read, err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("the rest took %v", d)
		}
	})
}

func TestMeterCloses(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	m := NewMeter(nil)
	m.SetRates(0, 1)
	w := m.Wrap(a)
	go io.Copy(io.Discard, b)
	done := make(chan error, 1)
	go func() { _, err := w.Write(make([]byte, 1<<20)); done <- err }()
	w.Close()
	if err := <-done; err == nil {
		t.Error("a write that waits for its turn outlives its connection")
	}
}

func TestMachine(t *testing.T) {
	for name, f := range map[string]func() (bool, error){"battery": OnBattery, "metered": OnMetered} {
		if on, err := f(); err != nil && (on || !errors.Is(err, ErrUnknown)) {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	var m Machine
	if u := m.Use(); (u.Err() == nil) != (u.Believed != "") || len(u.Trials) == 0 {
		t.Errorf("%+v", u)
	}
	for range 2 {
		if n, err := m.Busy(); err == nil && (n < 0 || n > 100) || err != nil && !errors.Is(err, ErrUnknown) {
			t.Error(n, err)
		}
	}
	m.last = ticks{total: 100, busy: 50, own: 10}
	if others := m.since(ticks{total: 300, busy: 150, own: 30}); others != 40 || m.Own() != 10 {
		t.Errorf("others use %d%%, this program %v%%", others, m.Own())
	}
}

func TestDeniedAndMisspelt(t *testing.T) {
	l := New(DefaultSettings(), "your settings", nil)
	l.SetPolicy("/etc/x", &Policy{DenyDomains: []string{"a.test"}, DenyNetworks: []string{"198.51.100.0/24"}})
	want := []Ban{{"own.test", "me"}, {"a.test", "policy from /etc/x"}, {"198.51.100.0/24", "policy from /etc/x"}}
	if got := l.Denied([]string{"own.test"}, "me"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestDomainsAreDeniedAsPeopleWriteThem: a volunteer's list and an admin's policy mean what they say, whatever form of a domain they have.
func TestDomainsAreDeniedAsPeopleWriteThem(t *testing.T) {
	for _, written := range []string{"a.test", "*.a.test", ".a.test.", "https://A.test/x?y", "a.test:8080", "http://a.test:80", " a.test "} {
		for host, want := range map[string]string{"a.test": "a.test", "www.a.test": "a.test", "ba.test": "", "test": ""} {
			if got := InDomains(host, []string{"b.test", written}); got != want {
				t.Errorf("%q covers %s: %q", written, host, got)
			}
		}
	}
	for _, written := range []string{"bücher.example", "*.BÜCHER.example", "https://bücher.example/", "xn--bcher-kva.example"} {
		l := New(DefaultSettings(), "your settings", nil)
		l.SetPolicy("/etc/x", &Policy{DenyDomains: []string{written}})
		if err := l.Denies("www.xn--bcher-kva.example"); err == nil {
			t.Errorf("a policy that denies %q denies nothing", written)
		}
	}
	for _, written := range []string{"2001:db8::1", "[2001:DB8::1]", "https://[2001:db8::1]:8443/"} {
		if InDomains("[2001:db8::1]", []string{written}) == "" {
			t.Errorf("%q denies nothing", written)
		}
	}
	l := New(DefaultSettings(), "your settings", nil)
	l.SetPolicy("/etc/x", &Policy{DenyNetworks: []string{"::ffff:198.51.100.0/120"}})
	if l.DeniesAddr("", netip.MustParseAddr("198.51.100.7")) == nil || l.DeniesAddr("", netip.MustParseAddr("198.51.101.7")) != nil {
		t.Error("a network of IPv4 that is written as one of IPv6 denies something else")
	}
	for _, nothing := range []string{"", "*", ".", "https://", "*.", "a.*", "a b", "me@a.test"} {
		if got := InDomains("a.test", []string{nothing}); got != "" {
			t.Errorf("%q covers a.test as %q", nothing, got)
		}
		if p := (Policy{DenyDomains: []string{"b.test", nothing}}); p.Validate() == nil {
			t.Errorf("a policy may deny %q, which is nothing", nothing)
		}
	}
}

// TestOverruledWishesAreTold: what a volunteer has set, in a file or for now, and a policy does not grant, stays visible beside what holds. A
// default is no wish.
func TestOverruledWishesAreTold(t *testing.T) {
	l := New(Settings{DownKiBPerS: 300, UpKiBPerS: 20, MonthMiB: 0}, "your settings", nil)
	l.SetSources(map[string]string{"down_kib_per_s": "your settings in f", "up_kib_per_s": "your settings in f"})
	l.SetPolicy("p", &Policy{DownKiBPerS: 200, UpKiBPerS: 50, MonthMiB: 9, Windows: []Window{{Days: "mon-fri", From: "08:00", To: "18:00", DownKiBPerS: 10}}})
	night, day := noon.Truncate(24*time.Hour), time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f := l.At(night)
	if f.DownKiBPerS.Overruled == nil || *f.DownKiBPerS.Overruled != (Wish{300, "your settings in f"}) || f.UpKiBPerS.Overruled != nil || f.MonthMiB.Overruled != nil {
		t.Errorf("%+v", f)
	}
	if len(f.Schedule) != 1 || f.Schedule[0].Now || f.Schedule[0].Span() != "mon-fri 08:00-18:00" || f.Schedule[0].Source != "policy from p" {
		t.Errorf("schedule %+v", f.Schedule)
	}
	l.SetSession(0, 0)
	f = l.At(day)
	if *f.DownKiBPerS.Overruled != (Wish{0, "shoal-peer limit"}) || *f.UpKiBPerS.Overruled != (Wish{0, "shoal-peer limit"}) || f.DownKiBPerS.Value != 10 || !f.Schedule[0].Now {
		t.Errorf("%+v %+v", f, f.Schedule)
	}
}

// TestWhatWasDoneSurvivesARestart: pages and bytes of the day, the month and ever are in the file that a kill leaves behind; a file of the
// version before is read.
func TestWhatWasDoneSurvivesARestart(t *testing.T) {
	now := noon
	clock := func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "usage.json")
	old := `{"month_begins":1,"day":"` + now.Format(time.DateOnly) + `","month":"` + now.Format("2006-01") + `","day_bytes":100,"month_bytes":300}`
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := OpenUsage(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	u.Count(now, Tally{Pages: 7, Unchanged: 2, Updated: 1, Failed: 1})
	u.add(50)
	if !u.Changed() {
		t.Error("nothing to save")
	}
	if err := errors.Join(u.Save(), u.Save()); err != nil || u.Changed() {
		t.Error(err)
	}
	now = now.AddDate(0, 0, 1)
	if u, err = OpenUsage(path, clock); err != nil {
		t.Fatal(err)
	}
	u.Count(now, Tally{Pages: 3})
	if d := u.Done(now); d.Ever.Pages != 7 || d.Today != (Tally{}) {
		t.Errorf("told before the file has it: %+v", d)
	}
	if err := u.Save(); err != nil {
		t.Fatal(err)
	}
	d := u.Done(now)
	all := Tally{Bytes: 350, Pages: 10, Unchanged: 2, Updated: 1, Failed: 1}
	if d.Today != (Tally{Pages: 3}) || d.Month != all || d.Ever != all || d.Begun.Format(time.DateOnly) != now.Format("2006-01")+"-01" || d.Since.IsZero() {
		t.Errorf("%+v", d)
	}
	if d = u.Done(now.AddDate(0, 1, 0)); d.Month != (Tally{}) || d.Ever != all {
		t.Errorf("a month later: %+v", d)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil { // the file cannot be written
		t.Fatal(err)
	}
	u.Count(now, Tally{Pages: 1})
	if err := u.Save(); err == nil {
		t.Error("saved")
	} else if d = u.Done(now); d.Ever.Pages != 11 || !u.Changed() {
		t.Errorf("with no file: %+v", d)
	}
}

// TestWrongSettingsNameTheirLine: whatever is wrong in a policy, the error names file, line and key, and what is allowed.
func TestWrongSettingsNameTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"off = false\ndown_kib = 3\n":                                    `line 2: down_kib is not a setting; did you mean "down_kib_per_s"?`,
		"off = false\nfast = 3\n":                                        `line 2: fast is not a setting; want one of contact, day_mib, deny_domains, `,
		"\n# night\n[[windows]]\nday = \"mon\"\n":                        `line 4: windows[1].day is not a setting; did you mean "days"?`,
		"off = \"yes\"\n":                                                `line 1: off is "yes"; want true or false`,
		"\ndown_kib_per_s = 1.5\n":                                       `line 2: down_kib_per_s is 1.5; want a whole number`,
		"up_kib_per_s = 1\ndown_kib_per_s = -1\n":                        `line 2: down_kib_per_s is -1; want 0 (no limit) or more`,
		"deny_domains = [\"a.test\",\n 7]\n":                             `line 1: deny_domains[2] is 7; want a text in quotes`,
		"\ndeny_networks = [\"10.0.0.0\"]\n":                             `line 2: deny_networks[1] is "10.0.0.0"; want a network such as 198.51.100.0/24`,
		"deny_domains = \"a.test\"\n":                                    `line 1: deny_domains is "a.test"; want a list, such as ["example.org"]`,
		"proxy = \"ftp://x\"\n":                                          `line 1: proxy is "ftp://x"; want http://host:port or https://host:port`,
		"\n\npolicy_url = \"http://intranet.example/p.toml\"\n":          `line 3: policy_url is "http://intranet.example/p.toml"; want https://`,
		"[[windows]]\nfrom = \"08:00\"\n[[windows]]\nfrom = \"25:00\"\n": `line 4: windows[2].from is "25:00"; want a time such as 22:00`,
		"[[windows]]\ndays = \"moonday\"\n":                              `line 2: windows[1].days is "moonday"; want mon-fri or sat,sun`,
		"windows = [{days = \"moonday\"}]\n":                             `line 1: windows[1].days is "moonday"; want mon-fri or sat,sun`,
		"windows = [3]\n":                                                `line 1: windows[1] is 3; want a table`,
		"off = false\nday_mib 5\n":                                       `line 2, column 9: expected '=' after key; want lines such as: down_kib_per_s = 200`,
		"off = false\noff = true\n":                                      `line 2, column `,
		"contact = \"a\n":                                                `line 1, column `,
		"off = false\n[[day_mib]]\n":                                     `line 2: day_mib is a list; want a whole number`,
		"off = false\nlimits.down = 5\n":                                 `line 2: limits is not a setting`,
		"off = false\n[limits.night]\ndown = 5\n":                        `line 2: limits is not a setting`,
		"[windows]\nfrom = \"08:00\"\n":                                  `line 1: windows is a table; want tables: [[windows]] and its lines below it`,
		"[[windows]]\nfrom = 08:00:00\n":                                 `line 2: windows[1].from is 08:00:00; want a text in quotes`,
		"day_mib = 1e3\n":                                                `line 1: day_mib is 1000.0; want a whole number`,
		"\nDay_MiB = 1\n":                                                `line 2: Day_MiB is not a setting; did you mean "day_mib"?`,
		"\nmonth_mib = 9999999999999\n":                                  `line 2: month_mib is 9999999999999; want 0 (no limit) to 2147483647`,
		"\xef\xbb\xbfoff = true\n":                                       `line 1: the file begins with a byte order mark`,
		"\xff\xfeo\x00f\x00f\x00":                                        `line 1: the file is UTF-16; save it as UTF-8`,
		"\xff = 1\n":                                                     `line 1, column `,
	} {
		_, err := ParsePolicy([]byte(text), "policy.toml")
		if err == nil || !strings.Contains(err.Error(), "policy.toml, "+want) || !errors.Is(err, ErrSettings) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestSessionRatesOutliveOtherChanges: a rate that holds until the process ends stays when other settings change, and goes when that rate itself does.
func TestSessionRatesOutliveOtherChanges(t *testing.T) {
	file := Settings{DownKiBPerS: 300, UpKiBPerS: 100}
	l := New(file, "yours", nil)
	l.SetSession(50, 20)
	file.DayMiB = 100
	l.Replace(file, nil)
	if f := l.At(noon); f.DownKiBPerS != (Cap{50, "shoal-peer limit", nil}) || f.UpKiBPerS != (Cap{20, "shoal-peer limit", nil}) {
		t.Errorf("after a budget was set: %+v, %+v", f.DownKiBPerS, f.UpKiBPerS)
	}
	file.DownKiBPerS = 200
	l.Replace(file, nil)
	if f := l.At(noon); f.DownKiBPerS != (Cap{200, "yours", nil}) || f.UpKiBPerS != (Cap{20, "shoal-peer limit", nil}) {
		t.Errorf("after that rate was changed: %+v, %+v", f.DownKiBPerS, f.UpKiBPerS)
	}
	l.Replace(file, nil)
	if f := l.At(noon); f.DownKiBPerS != (Cap{200, "yours", nil}) || f.UpKiBPerS != (Cap{20, "shoal-peer limit", nil}) {
		t.Errorf("in the end: %+v, %+v", f.DownKiBPerS, f.UpKiBPerS)
	}
}

// What would hold with other settings counts a rate that holds until the process ends, as what holds after they are saved does.
func TestTryKnowsTheSessionsRates(t *testing.T) {
	file := Settings{DownKiBPerS: 300, UpKiBPerS: 100}
	l := New(file, "yours", nil)
	l.SetSession(0, 20)
	file.DayMiB, file.UpKiBPerS = 100, 90
	would := l.Try(file, nil).At(noon)
	l.Replace(file, nil)
	if is := l.At(noon); would.DownKiBPerS != is.DownKiBPerS || would.UpKiBPerS != is.UpKiBPerS || is.DownKiBPerS.Value != 0 || is.UpKiBPerS.Value != 90 {
		t.Errorf("%+v and %+v would hold; %+v and %+v do", would.DownKiBPerS, would.UpKiBPerS, is.DownKiBPerS, is.UpKiBPerS)
	}
}

// TestEmptyPolicyFileIsRefused: a file that lost its text lifts nothing. One of comments alone is a policy that limits nothing.
func TestEmptyPolicyFileIsRefused(t *testing.T) {
	if os.Getuid() != 0 && runtime.GOOS != "windows" {
		t.Skip("only root's file is a policy")
	}
	file := filepath.Join(t.TempDir(), "policy.toml")
	for text, says := range map[string]string{"": "the file is empty; write a policy, of comments alone", " \n\t\n": "the file is empty", "# nothing\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := ReadPolicy(file)
		if (says == "") != (err == nil && p != nil) || says != "" && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

// TestShownHidesSecrets: an address is shown without what gives access there, in errors of package net/http too.
func TestShownHidesSecrets(t *testing.T) {
	for at, want := range map[string]string{
		"/etc/shoal/policy.toml":            "/etc/shoal/policy.toml",
		"https://a.example/p?":              "https://a.example/p?",
		"https://a.example/p":               "https://a.example/p",
		"https://ada:pass@a.example:8443/p": "https://ada:***@a.example:8443/p",
		"https://token@a.example/p?k=v#x":   "https://***@a.example/p?***",
	} {
		if got := Shown(at); got != want {
			t.Errorf("%s is shown as %s, want %s", at, got, want)
		}
	}
	at := "http://ada:pass@127.0.0.1:1/p?key=hush"
	_, err := http.Get(at)
	if text := Hide(err.Error()+" "+at, at); strings.Contains(text, "pass") || strings.Contains(text, "hush") || strings.Count(text, "http://ada:***@127.0.0.1:1/p?***") != 2 {
		t.Error(text)
	}
}
