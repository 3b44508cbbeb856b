package limit

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// testBus starts a bus of its own.
func testBus(t *testing.T) func() (*dbus.Conn, error) {
	t.Helper()
	path, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal("no dbus-daemon here, and SHOAL_TEST_STRICT=1 wants it")
		}
		t.Skip("no dbus-daemon here: no desktop is played")
	}
	dir, err := os.MkdirTemp("", "bus") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	text := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=` + filepath.Join(dir, "bus") + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--config-file="+config, "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // it was killed
	})
	at, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return func() (*dbus.Conn, error) { return dbus.Connect(strings.TrimSpace(at)) }
}

// as plays a service on a bus.
func as(t *testing.T, bus func() (*dbus.Conn, error), name string) *dbus.Conn {
	t.Helper()
	c, err := bus()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.RequestName(name, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return c
}

type gnome struct{ ms uint64 }

func (g *gnome) GetIdletime() (uint64, *dbus.Error) { return g.ms, nil }

type saver struct {
	on   bool
	ms   uint32
	ofMs bool
}

func (s *saver) GetActive() (bool, *dbus.Error) { return s.on, nil }
func (s *saver) GetSessionIdleTime() (uint32, *dbus.Error) {
	if !s.ofMs {
		return 0, dbus.MakeFailedError(errors.New("not implemented"))
	}
	return s.ms, nil
}

type keeper struct{ on bool }

func (k *keeper) IsInhibited(uint32) (bool, *dbus.Error) { return k.on, nil }

type sessionRow struct {
	ID   string
	UID  uint32
	User string
	Seat string
	Path dbus.ObjectPath
}

type logins struct{ rows []sessionRow }

func (l *logins) ListSessions() ([]sessionRow, *dbus.Error) { return l.rows, nil }

// session is what logind says of one.
type session struct {
	class        string
	idle, locked bool
}

func playLogind(t *testing.T, bus func() (*dbus.Conn, error), inhibited string, list ...session) {
	t.Helper()
	c := as(t, bus, login)
	l := &logins{}
	for i, s := range list {
		at := loginPath + dbus.ObjectPath("/session/_"+string(rune('1'+i)))
		l.rows = append(l.rows, sessionRow{ID: "x", Path: at})
		if _, err := prop.Export(c, at, prop.Map{loginSession: {"Class": {Value: s.class}, "IdleHint": {Value: s.idle}, "LockedHint": {Value: s.locked}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := prop.Export(c, loginPath, prop.Map{loginManager: {"BlockInhibited": {Value: inhibited}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Export(l, loginPath, loginManager); err != nil {
		t.Fatal(err)
	}
}

var noBus = func() (*dbus.Conn, error) { return nil, errors.New("no bus") }

// TestUse plays desktops on private buses: who is believed, and what that one says.
func TestUse(t *testing.T) {
	at := time.Now()
	quiet := senses{system: noBus, session: noBus, terminals: nil, interrupts: "/nonexistent", now: func() time.Time { return at }, front: noFront}
	var m Machine
	if u := m.use(quiet); u.Believed != "" || u.InUse || u.Err() == nil || !errors.Is(u.Err(), ErrUnknown) || len(u.Trials) != 5 || u.FullBy != "" {
		t.Errorf("nothing is known: %+v", u)
	}
	for name, c := range map[string]struct {
		logins    []session
		inhibited string
		gnome     *gnome
		saver     *saver
		keeper    *keeper
		believed  string
		inUse     bool
		full      bool
		fullBy    string
	}{
		"a person at a text console":        {logins: []session{{"user", false, false}}, believed: SourceLogind, inUse: true, fullBy: login},
		"a console that nobody types at":    {logins: []session{{"user", true, false}}, believed: SourceLogind, fullBy: login},
		"a locked desktop":                  {logins: []session{{"user", false, true}}, believed: SourceLogind, fullBy: login},
		"only a greeter":                    {logins: []session{{"greeter", false, false}}, believed: SourceLogind, fullBy: login},
		"nobody is logged in":               {logins: []session{}, believed: SourceLogind, fullBy: login},
		"GNOME, typing":                     {logins: []session{{"user", false, false}}, gnome: &gnome{1500}, believed: SourceMutter, inUse: true, fullBy: login},
		"GNOME, and the hint is never set":  {logins: []session{{"user", false, false}}, gnome: &gnome{3_600_000}, believed: SourceMutter, fullBy: login},
		"KDE, away":                         {saver: &saver{ms: 900_000, ofMs: true}, believed: SourceScreenSaver},
		"KDE, at it":                        {logins: []session{{"user", true, false}}, saver: &saver{ms: 2000, ofMs: true}, believed: SourceScreenSaver, inUse: true, fullBy: login},
		"a saver that is on":                {logins: []session{{"user", false, false}}, saver: &saver{on: true}, believed: SourceScreenSaver, fullBy: login},
		"a saver that says little":          {logins: []session{{"user", false, false}}, saver: &saver{}, believed: SourceLogind, inUse: true, fullBy: login},
		"a film, as GNOME knows it":         {gnome: &gnome{3_600_000}, keeper: &keeper{true}, believed: SourceMutter, full: true, fullBy: "org.gnome.SessionManager"},
		"a talk, as logind knows it":        {logins: []session{{"user", false, false}}, inhibited: "sleep:idle", believed: SourceLogind, inUse: true, full: true, fullBy: login},
		"an update, which is no fullscreen": {logins: []session{}, inhibited: "shutdown:sleep", believed: SourceLogind, fullBy: login},
	} {
		t.Run(name, func(t *testing.T) {
			s := quiet
			if c.logins != nil {
				s.system = testBus(t)
				playLogind(t, s.system, c.inhibited, c.logins...)
			}
			if c.gnome != nil || c.saver != nil || c.keeper != nil {
				s.session = testBus(t)
			}
			for _, p := range []struct {
				what     any
				is       bool
				name, at string
				face     string
			}{{c.gnome, c.gnome != nil, "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core", "org.gnome.Mutter.IdleMonitor"},
				{c.saver, c.saver != nil, "org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver", "org.freedesktop.ScreenSaver"},
				{c.keeper, c.keeper != nil, "org.gnome.SessionManager", "/org/gnome/SessionManager", "org.gnome.SessionManager"}} {
				if p.is {
					if err := as(t, s.session, p.name).Export(p.what, dbus.ObjectPath(p.at), p.face); err != nil {
						t.Fatal(err)
					}
				}
			}
			var m Machine
			u := m.use(s)
			if u.Believed != c.believed || u.InUse != c.inUse || u.Full != c.full || u.FullBy != c.fullBy || u.Err() != nil {
				t.Errorf("%+v, %v", u, u.Err())
			}
		})
	}
}

// TestTerminals believes a terminal that somebody types at, and no idle one: a mouse needs no terminal.
func TestTerminals(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	pattern := []string{filepath.Join(dir, "pts*")}
	if tr := typedAt(pattern, now); tr.Known {
		t.Errorf("no terminal: %+v", tr)
	}
	file := filepath.Join(dir, "pts1")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	if err := os.Chown(file, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	for ago, inUse := range map[time.Duration]bool{time.Minute: true, time.Hour: false} {
		if err := os.Chtimes(file, now.Add(-ago), now); err != nil {
			t.Fatal(err)
		}
		tr := typedAt(pattern, now)
		if !tr.Known || tr.InUse != inUse || tr.Idle.Round(time.Second) != ago {
			t.Errorf("%v: %+v", ago, tr)
		}
		if u := judge([]Trial{tr}); (u.Believed != "") != inUse {
			t.Errorf("%v: %+v", ago, u)
		}
	}
}

// TestInterrupts counts keyboards' interrupts as a kernel shows them.
func TestInterrupts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "interrupts")
	now := time.Unix(1_800_000_000, 0)
	var m Machine
	say := func(text string, after time.Duration) Trial {
		t.Helper()
		now = now.Add(after)
		if err := os.WriteFile(file, []byte("            CPU0       CPU1\n   0:  7  0  IO-APIC  2-edge  timer\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return m.interrupted(file, now)
	}
	line := func(n string) string { return "   1:  " + n + "  3  IO-APIC  1-edge  i8042\n" }
	if tr := say("", 0); tr.Known {
		t.Errorf("no keyboard: %+v", tr)
	}
	if tr := say("   1:  0  0  IO-APIC  1-edge  i8042\n", 0); tr.Known {
		t.Errorf("a controller without a keyboard: %+v", tr)
	}
	if tr := say(line("10"), 0); tr.Known {
		t.Errorf("the first count: %+v", tr)
	}
	if tr := say(line("10"), time.Minute); tr.Known {
		t.Errorf("too early to say: %+v", tr)
	}
	if tr := say(line("12"), time.Minute); !tr.InUse || tr.Idle != 0 {
		t.Errorf("typed: %+v", tr)
	}
	if tr := say(line("12"), time.Hour); !tr.Known || tr.InUse || tr.Idle != time.Hour {
		t.Errorf("not typed for an hour: %+v", tr)
	}
}

// TestOwnGroup counts the whole group of a service, and no group that others are in.
func TestOwnGroup(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "self")
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatalf("a child process for the group: %v", err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	group := filepath.Join(dir, "system.slice", "shoal.service")
	if err := os.MkdirAll(group, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(group, "cpu.stat"), "usage_usec 2500000\nuser_usec 2000000\n")
	own := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		self, procs string
		ok          bool
	}{
		"alone":          {"0::/system.slice/shoal.service\n", own + "\n", true},
		"with a child":   {"1:cpu:/x\n0::/system.slice/shoal.service\n", own + "\n" + strconv.Itoa(child.Process.Pid) + "\n", true},
		"with others":    {"0::/system.slice/shoal.service\n", own + "\n1\n", false},
		"at the root":    {"0::/\n", own + "\n", false},
		"version 1 only": {"1:cpu:/system.slice/shoal.service\n", own + "\n", false},
	} {
		write(self, c.self)
		write(filepath.Join(group, "cgroup.procs"), c.procs)
		d, ok := groupTime(self, dir)
		if ok != c.ok || ok && d != 2500*time.Millisecond {
			t.Errorf("%s: %v, %v", name, d, ok)
		}
	}
	if d, err := ownTime(filepath.Join(dir, "none"), dir); err != nil || d <= 0 {
		t.Error(d, err)
	}
}
