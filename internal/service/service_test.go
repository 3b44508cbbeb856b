package service

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write testdata")

var (
	systemSpec = Spec{Exec: "/usr/bin/shoal-peer", Args: []string{"service", "run"}, System: true, User: "shoal-peer", Data: "/var/lib/shoal-peer", Home: "/var/lib/shoal-peer",
		Env: []string{"SHOAL_PEER_CONFIG=/var/lib/shoal-peer/peer.toml", "SHOAL_PEER_DATA=/var/lib/shoal-peer"}}
	userSpec = Spec{Exec: "/home/ada/my tools/100%/shoal-peer", Args: []string{"service", "run"}, Home: "/home/ada", User: `PC\Ada & Co`, Env: []string{"SHOAL_PEER_ACCOUNT=Ada \"the\" <first>"}}
)

// TestDefinitions compares the definitions with those that were read and found right.
func TestDefinitions(t *testing.T) {
	for name, got := range map[string]string{
		"system.service": Unit(&systemSpec), "user.service": Unit(&userSpec), "system.plist": Plist(&systemSpec), "user.plist": Plist(&userSpec), "task.xml": Task(&userSpec),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got {
			t.Errorf("%s: %v; it is now\n%s", name, err, got)
		}
	}
}

// TestXML: what launchd and Windows read is XML, whatever stands in paths and variables.
func TestXML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ -~é<&>"']{0,20}`)
		s := Spec{Exec: "/" + word.Draw(t, "exec"), Args: rapid.SliceOfN(word, 0, 3).Draw(t, "args"), Env: []string{"A=" + word.Draw(t, "env")}, User: word.Draw(t, "user")}
		for _, text := range []string{Plist(&s), strings.Replace(Task(&s), "UTF-16", "UTF-8", 1)} {
			d := xml.NewDecoder(strings.NewReader(text))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
			}
		}
	})
}

// TestSandbox: systemd itself rates the system's unit at most 2.0, and finds nothing wrong with either.
func TestSandbox(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		missing(t, "systemd-analyze is not here (Debian: systemd)")
	}
	for _, s := range []Spec{systemSpec, userSpec} {
		s.Exec = "/bin/true" // verify wants a program that is there
		dir := t.TempDir()
		file := filepath.Join(dir, "shoal-peer.service")
		if err := os.WriteFile(file, []byte(Unit(&s)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), "shoal-peer.service") {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
		out, err = exec.Command(tool, "security", "--offline=true", "--no-pager", file).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("systemd-analyze security: %v\n%s", err, out)
		}
		t.Logf("system %v: exposure %s", s.System, m[1])
		if level, err := strconv.ParseFloat(m[1], 64); err != nil || s.System && level > 2.0 {
			t.Errorf("the unit's exposure is %s; want at most 2.0\n%s", m[1], out)
		}
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SHOAL_TEST_STRICT") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// fake answers the commands of a service manager.
type fake struct {
	asked   []string
	answers map[string]string // what is printed by commands that fail, by how they begin
	prints  map[string]string
	absent  bool
	bare    bool // systemd does not run here
}

func (f *fake) run(_ context.Context, name string, args ...string) (string, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	f.asked = append(f.asked, line)
	if f.absent {
		return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
	}
	for begins, said := range f.answers {
		if strings.HasPrefix(line, begins) {
			return said, errors.New("exit status 1")
		}
	}
	for begins, said := range f.prints {
		if strings.HasPrefix(line, begins) {
			return said, nil
		}
	}
	return "", nil
}

// TestUserLife installs, stops, starts and removes a user's service at each manager that can be asked by commands.
func TestUserLife(t *testing.T) {
	for _, c := range []struct {
		name    string
		manager func(Spec, Tools) Manager
		file    string
		asks    []string // in this order, beside others
		prints  map[string]string
		answers map[string]string
	}{
		{"systemd", func(s Spec, t Tools) Manager { return &Systemd{s, t} }, ".config/systemd/user/shoal-peer.service",
			[]string{"systemctl --user daemon-reload", "systemctl --user enable", "systemctl --user restart", "systemctl --user stop", "systemctl --user start", "systemctl --user disable --now"},
			map[string]string{"systemctl --user show --property": "ActiveState=active\nSubState=running\nUnitFileState=enabled\nNRestarts=2\n"}, nil},
		{"launchd", func(s Spec, t Tools) Manager { return &Launchd{s, t} }, "Library/LaunchAgents/network.shoal.peer.plist",
			[]string{"launchctl bootout gui/501/network.shoal.peer", "launchctl kickstart gui/501/network.shoal.peer"},
			map[string]string{"launchctl print gui/501/network": "\tactive count = 1\n\tstate = running\n"}, nil},
		{"tasks", func(s Spec, t Tools) Manager { return &Tasks{s, t} }, "",
			[]string{`schtasks.exe /create /tn Shoal\peer /xml`, `schtasks.exe /run`, `schtasks.exe /end`, `schtasks.exe /run`, `schtasks.exe /delete`},
			map[string]string{`schtasks.exe /query /tn Shoal\peer /fo`: `"\Shoal\peer","N/A","Running"` + "\r\n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{prints: c.prints, answers: c.answers}
			s := userSpec
			s.Home = t.TempDir()
			m := c.manager(s, Tools{Run: f.run, UID: 501})
			if c.file != "" {
				if err := m.Stop(t.Context()); !errors.Is(err, ErrNotInstalled) {
					t.Errorf("stopping what is not there: %v", err)
				}
			}
			if err := m.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			st, err := m.State(t.Context())
			if err != nil || !st.Installed || !st.Running {
				t.Errorf("%+v, %v", st, err)
			}
			for _, do := range []func(context.Context) error{m.Stop, m.Start} {
				if err := do(t.Context()); err != nil {
					t.Error(err)
				}
			}
			file := filepath.Join(s.Home, filepath.FromSlash(c.file))
			if c.file != "" {
				if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "shoal-peer") {
					t.Errorf("%v: %s", err, text)
				}
			}
			if err := m.Uninstall(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(file); c.file != "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the definition is still there: %v", err)
			}
			left := f.asked
			for _, want := range c.asks {
				for len(left) > 0 && !strings.HasPrefix(left[0], want) {
					left = left[1:]
				}
				if len(left) == 0 {
					t.Errorf("it did not ask %q in its turn, but\n%s", want, strings.Join(f.asked, "\n"))
				}
			}
		})
	}
}

// TestNoManager: a service manager that is not there gives a sentence with what to do, and nothing is written.
func TestNoManager(t *testing.T) {
	for name, c := range map[string]struct {
		f    fake
		m    func(Spec, Tools) Manager
		says string
	}{
		"no systemd":     {fake{absent: true}, func(s Spec, t Tools) Manager { return &Systemd{s, t} }, "does not run systemd; have your own init system run: "},
		"no bus":         {fake{answers: map[string]string{"systemctl": "Failed to connect to bus: No medium found"}}, func(s Spec, t Tools) Manager { return &Systemd{s, t} }, "sudo shoal-peer --system service install"},
		"a container":    {fake{answers: map[string]string{"systemctl": "Failed to connect to bus: No medium found"}, bare: true}, func(s Spec, t Tools) Manager { return &Systemd{s, t} }, "as in most containers"},
		"no launchd":     {fake{absent: true}, func(s Spec, t Tools) Manager { return &Launchd{s, t} }, "no launchctl"},
		"no session":     {fake{answers: map[string]string{"launchctl": "Could not find domain for user gui: 501"}}, func(s Spec, t Tools) Manager { return &Launchd{s, t} }, "log in at the Mac's own screen"},
		"no tasks":       {fake{absent: true}, func(s Spec, t Tools) Manager { return &Tasks{s, t} }, "no schtasks.exe"},
		"unknown system": {fake{}, func(s Spec, t Tools) Manager { m, err := on("plan9", s, t); return failing{m, err} }, "plan9; have your own one run: "},
	} {
		s := userSpec
		s.Home = t.TempDir()
		err := c.m(s, Tools{Run: c.f.run, UID: 501, Booted: func() bool { return !c.f.bare }}).Install(t.Context())
		if !errors.Is(err, ErrNoManager) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if files, _ := os.ReadDir(s.Home); len(files) > 0 {
			t.Errorf("%s: it wrote %v", name, files)
		}
	}
}

type failing struct {
	Manager
	err error
}

func (f failing) Install(context.Context) error { return f.err }

// TestRefused: what the system does not let a user do names sudo; a path that cannot be written into a definition is refused.
func TestRefused(t *testing.T) {
	s := systemSpec
	f := fake{answers: map[string]string{"systemctl enable": "Failed to enable unit: Access denied"}, prints: map[string]string{"id": "999"}}
	m := &Systemd{s, Tools{Run: f.run}}
	if _, err := m.ask(t.Context(), "enable", "x"); err == nil || !strings.Contains(err.Error(), "put sudo before") {
		t.Error(err)
	}
	s.Exec = "/opt/a\nExecStart=/bin/evil"
	for _, m := range []Manager{&Systemd{s, Tools{Run: f.run}}, &Launchd{s, Tools{Run: f.run}}, &Tasks{s, Tools{Run: f.run}}} {
		if err := m.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "control character") {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// TestStarts: no wait after an orderly end; after crashes each wait is twice the one before, to five minutes; a long run makes good.
func TestStarts(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s, wait := Starts{}.Next(now)
	if wait != 0 || s.Crashes != 0 {
		t.Errorf("first start: %v, %+v", wait, s)
	}
	file := filepath.Join(t.TempDir(), "starts.json")
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300} {
		if err := SaveStarts(file, s); err != nil {
			t.Fatal(err)
		}
		kept, err := LoadStarts(file)
		if err != nil {
			t.Fatal(err)
		}
		now = kept.Began.Add(3 * time.Second) // it ran so long
		if s, wait = kept.Next(now); wait != want*time.Second || s.Crashes != i+1 {
			t.Errorf("crash %d: it waits %v, want %v; %+v", i+1, wait, want*time.Second, s)
		}
	}
	if s, wait = s.Next(s.Began.Add(settled)); wait != time.Second || s.Crashes != 1 {
		t.Errorf("a crash after a long run: %v, %+v", wait, s)
	}
	if err := os.WriteFile(file, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := LoadStarts(file); err != nil || s != (Starts{}) {
		t.Errorf("a damaged file: %+v, %v", s, err)
	}
}

// TestCommandLine: Windows programs read the words back (as CommandLineToArgvW is documented).
func TestCommandLine(t *testing.T) {
	for want, words := range map[string][]string{
		`service run`: {"service", "run"}, `--log "C:\Users\Ada L\x.log"`: {"--log", `C:\Users\Ada L\x.log`}, `"a\"b" "c d\\" ""`: {`a"b`, `c d\`, ""},
	} {
		if got := CommandLine(words); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}

// TestLog: the log never takes more than two files of its bound, and continues after a restart.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range 3 {
		l, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := l.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, path + ".1"} {
		if st, err := os.Stat(p); err != nil || st.Size() > maxLog || st.Size() == 0 {
			t.Errorf("%s: %v, %v", p, st, err)
		}
	}
}

// TestLogGoesOnWithoutItsFile: a full log whose file was renamed before, and whose new file could not be opened then, is written again as soon as one can be.
func TestLogGoesOnWithoutItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Write(bytes.Repeat([]byte("x"), maxLog)); err != nil {
		t.Fatal(err)
	}
	l.f.Close() // which Windows demands
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("after\n")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "after\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestPackaged: the mark lies where packages put it, seen through a link too.
func TestPackaged(t *testing.T) {
	usr := t.TempDir()
	exe := filepath.Join(usr, "bin", "shoal-peer")
	for file, text := range map[string]string{exe: "", filepath.Join(usr, "lib", "shoal-peer", "packaged"): "deb\n"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	if a, b, c := PackagedBy(exe), PackagedBy(link), PackagedBy("/nowhere/bin/x"); a != "deb" || b != "deb" || c != "" {
		t.Errorf("%q %q %q", a, b, c)
	}
}
