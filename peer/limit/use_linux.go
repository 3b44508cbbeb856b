package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// askWait bounds a question to a desktop. One that hangs must not hold the limits up.
const askWait = 2 * time.Second

// senses are the ways to learn of a person's use of a Linux computer. Tests replace them.
type senses struct {
	system, session func() (*dbus.Conn, error)
	terminals       []string // patterns of terminals
	interrupts      string   // the kernel's file
	now             func() time.Time
	front           func() (fills bool, err error) // whether the window in front fills the screen
}

func theSenses() senses {
	return senses{
		system: func() (*dbus.Conn, error) { return dbus.ConnectSystemBus() }, session: sessionBus,
		terminals: []string{"/dev/tty[0-9]*", "/dev/pts/[0-9]*"}, interrupts: "/proc/interrupts", now: time.Now, front: frontNow,
	}
}

// sessionBus connects to the bus of this user's desktop. It never starts one, as the library would.
func sessionBus() (*dbus.Conn, error) {
	at := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if at == "" {
		dir := os.Getenv("XDG_RUNTIME_DIR")
		if dir == "" {
			dir = fmt.Sprintf("/run/user/%d", os.Getuid())
		}
		path := filepath.Join(dir, "bus")
		if _, err := os.Stat(path); err != nil {
			return nil, errors.New("this user has no desktop's bus")
		}
		at = "unix:path=" + path
	}
	return dbus.Connect(at)
}

// Use asks every source. Only one goroutine may call it.
func (m *Machine) Use() Use { return m.use(theSenses()) }

func (m *Machine) use(s senses) Use {
	var trials []Trial
	sys, err := s.system()
	if err != nil {
		trials = append(trials, untold(SourceLogind, err))
	} else {
		defer sys.Close()
		trials = append(trials, logind(sys))
	}
	ses, err := s.session()
	if err != nil {
		trials = append(trials, untold(SourceMutter, err), untold(SourceScreenSaver, err))
	} else {
		defer ses.Close()
		trials = append(trials, mutter(ses), screenSaver(ses))
	}
	trials = append(trials, typedAt(s.terminals, s.now()), m.interrupted(s.interrupts, s.now()))
	u := judge(trials)
	if full, err := s.front(); err == nil {
		u.Full, u.FullBy = full, SourceWindow
	}
	if !u.Full { // a film may be awake in a window that does not say that it fills the screen
		if on, by := keptAwake(sys, ses); on || u.FullBy == "" {
			u.Full, u.FullBy = on, by
		}
	}
	return u
}

func frontNow() (bool, error) {
	d, err := theDisplay()
	if err != nil {
		return false, err
	}
	return frontFills(d)
}

func ask(bus *dbus.Conn, service string, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	return bus.Object(service, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
}

func askProperty(bus *dbus.Conn, service string, path dbus.ObjectPath, face, name string) (any, error) {
	var v dbus.Variant
	err := ask(bus, service, path, "org.freedesktop.DBus.Properties.Get", face, name).Store(&v)
	return v.Value(), err
}

const (
	login        = "org.freedesktop.login1"
	loginPath    = dbus.ObjectPath("/org/freedesktop/login1")
	loginManager = login + ".Manager"
	loginSession = login + ".Session"
)

// logind looks at the sessions of persons. Nobody sits at a locked one. The hint of a terminal's session is logind's own; that of a desktop's is
// what the desktop has set, if it sets one.
func logind(bus *dbus.Conn) Trial {
	var list []struct {
		ID   string
		UID  uint32
		User string
		Seat string
		Path dbus.ObjectPath
	}
	if err := ask(bus, login, loginPath, loginManager+".ListSessions").Store(&list); err != nil {
		return untold(SourceLogind, err)
	}
	used := false
	for _, s := range list {
		get := func(name string) any {
			v, err := askProperty(bus, login, s.Path, loginSession, name)
			if err != nil {
				return nil
			}
			return v
		}
		if class, _ := get("Class").(string); class != "" && class != "user" { // a greeter, a service's manager
			continue
		}
		locked, _ := get("LockedHint").(bool)
		idle, known := get("IdleHint").(bool)
		if known && !locked && !idle {
			used = true
		}
	}
	return hinted(SourceLogind, used)
}

// mutter asks GNOME.
func mutter(bus *dbus.Conn) Trial {
	var ms uint64
	if err := ask(bus, "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core", "org.gnome.Mutter.IdleMonitor.GetIdletime").Store(&ms); err != nil {
		return untold(SourceMutter, err)
	}
	return measured(SourceMutter, time.Duration(ms)*time.Millisecond)
}

// screenSaver asks a screen saver: KDE's tells the time since the last key or movement in milliseconds, others only whether they are on.
func screenSaver(bus *dbus.Conn) Trial {
	const name, path = "org.freedesktop.ScreenSaver", dbus.ObjectPath("/org/freedesktop/ScreenSaver")
	var on bool
	err := ask(bus, name, path, name+".GetActive").Store(&on)
	if err == nil && on {
		return Trial{Source: SourceScreenSaver, Known: true, sure: true}
	}
	var ms uint32
	if e := ask(bus, name, path, name+".GetSessionIdleTime").Store(&ms); e == nil {
		return measured(SourceScreenSaver, time.Duration(ms)*time.Millisecond)
	}
	if err != nil {
		return untold(SourceScreenSaver, err)
	}
	return untold(SourceScreenSaver, errors.New("it says only that it is off"))
}

// typedAt looks when a terminal was last read from, which is when somebody typed.
func typedAt(patterns []string, now time.Time) Trial {
	var last time.Time
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			return untold(SourceTerminals, err)
		}
		for _, n := range names {
			var st unix.Stat_t
			if unix.Stat(n, &st) != nil {
				continue
			}
			// A terminal whose owner is root waits for a login, and is touched by the system itself.
			if st.Uid == 0 {
				continue
			}
			if at := time.Unix(st.Atim.Unix()); at.After(last) && !at.After(now) {
				last = at
			}
		}
	}
	if last.IsZero() {
		return untold(SourceTerminals, errors.New("no user has a terminal open"))
	}
	t := measured(SourceTerminals, now.Sub(last))
	t.half = true
	return t
}

// interrupted compares the interrupts of keyboards and mice with those of the last call. USB ones share their controllers' interrupts with disks
// and networks, so only those of the keyboard controller count.
func (m *Machine) interrupted(file string, now time.Time) Trial {
	b, err := os.ReadFile(file)
	if err != nil {
		return untold(SourceInterrupts, err)
	}
	sum, found := uint64(0), false
	for line := range bytes.Lines(b) {
		if !bytes.Contains(line, []byte("i8042")) && !bytes.Contains(line, []byte("keyboard")) {
			continue
		}
		found = true
		for _, f := range strings.Fields(string(line))[1:] {
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				break
			}
			sum += n
		}
	}
	p := &m.pulse
	switch {
	case !found:
		return untold(SourceInterrupts, errors.New("the kernel names no keyboard controller"))
	case sum == 0:
		return untold(SourceInterrupts, errors.New("the keyboard controller has never been used; keyboard and mouse are of another kind"))
	case p.begun.IsZero():
		*p = pulse{count: sum, at: now, begun: now}
		return untold(SourceInterrupts, errors.New("counted for the first time"))
	}
	if sum != p.count {
		p.count, p.at = sum, now
	}
	if idle := now.Sub(p.at); touched(idle) && p.at.Equal(p.begun) {
		return untold(SourceInterrupts, errors.New("counted for a few minutes only"))
	}
	t := measured(SourceInterrupts, now.Sub(p.at))
	t.half = true
	return t
}

// keptAwake reports whether a program keeps the screen from going dark, as films, games and talks that fill it do. It is all that there is where the
// window itself is not known.
func keptAwake(sys, ses *dbus.Conn) (on bool, by string) {
	if ses != nil {
		const idleInhibited = uint32(8)
		if ask(ses, "org.gnome.SessionManager", "/org/gnome/SessionManager", "org.gnome.SessionManager.IsInhibited", idleInhibited).Store(&on) == nil {
			return on, "org.gnome.SessionManager"
		}
		if ask(ses, "org.freedesktop.PowerManagement", "/org/freedesktop/PowerManagement/Inhibit", "org.freedesktop.PowerManagement.Inhibit.HasInhibit").Store(&on) == nil {
			return on, "org.freedesktop.PowerManagement"
		}
	}
	if sys != nil {
		if v, err := askProperty(sys, login, loginPath, loginManager, "BlockInhibited"); err == nil {
			what, ok := v.(string)
			for _, w := range strings.Split(what, ":") {
				on = on || w == "idle"
			}
			if ok {
				return on, login
			}
		}
	}
	return false, ""
}
