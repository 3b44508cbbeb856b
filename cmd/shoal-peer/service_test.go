package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/service"
)

// manned is a service manager for tests.
type manned struct {
	did   []string
	state service.State
	err   error
}

func (m *manned) do(what string) error { m.did = append(m.did, what); return m.err }

func (m *manned) Install(context.Context) error   { m.state.Installed = true; return m.do("install") }
func (m *manned) Start(context.Context) error     { return m.do("start") }
func (m *manned) Stop(context.Context) error      { return m.do("stop") }
func (m *manned) Uninstall(context.Context) error { return m.do("uninstall") }
func (m *manned) State(context.Context) (service.State, error) {
	return m.state, nil
}

// TestServiceCommands: each command asks the manager and says what comes of it and what to do next.
func TestServiceCommands(t *testing.T) {
	defer func(f func(streams, *cli) (service.Manager, error)) { serviceManager = f }(serviceManager)
	m := &manned{state: service.State{Says: "active (running), enabled", Logs: "journalctl --user -u shoal-peer"}}
	serviceManager = func(streams, *cli) (service.Manager, error) { return m, nil }
	v := newVolunteer(t)
	for _, c := range []struct{ args, says string }{
		{"service status", "service   not installed for you\n"},
		{"service install", "installed for you: active (running), enabled.\nIts log: journalctl --user -u shoal-peer\nIt waits until this computer is a member: shoal-peer join JOIN-STRING\n"},
		{"service status", "service   installed for you; active (running), enabled\n"},
		{"service status", "peer      waits until this computer is a member: shoal-peer join"},
		{"service start", "started"}, {"service stop", "stopped"}, {"service uninstall", "to leave the network too: shoal-peer leave"},
	} {
		if out := v.ok(strings.Fields(c.args)...); !strings.Contains(out, c.says) {
			t.Errorf("%s says\n%s\nwithout %q", c.args, out, c.says)
		}
	}
	if got := strings.Join(m.did, " "); got != "install start stop uninstall" {
		t.Errorf("it asked to %s", got)
	}
	m.err = service.ErrNotInstalled
	if code, out := v.do("service", "start"); code != 1 || !strings.Contains(out, "install it with: shoal-peer service install") {
		t.Errorf("%d %s", code, out)
	}
	v.env = append(v.env, "SHOAL_PEER_THREADS=9999")
	if code, out := v.do("service", "install"); code != 1 || !strings.Contains(out, "threads is 9999") {
		t.Errorf("settings that cannot be are installed: %d %s", code, out)
	}
}

// TestServiceSpec: the service gets the file and the variables that the command had.
func TestServiceSpec(t *testing.T) {
	spec, err := serviceSpec(streams{env: []string{"PATH=/bin", "SHOAL_PEER_DATA=/d", "SHOAL_PEER_CONFIG=/c"}}, &cli{Config: "/c"})
	if err != nil || strings.Join(spec.Env, " ") != "SHOAL_PEER_DATA=/d" || !strings.HasPrefix(strings.Join(spec.Args, " "), "service run --config /c") || spec.Validate() != nil {
		t.Errorf("%+v, %v", spec, err)
	}
	for system, want := range map[string]place{
		"linux":   {"/var/lib/shoal-peer", "/var/lib/shoal-peer/peer.toml", "shoal-peer", "", "/etc/shoal/peer.env"},
		"windows": {`D:\Data\Shoal\peer`, `D:\Data\Shoal\peer\peer.toml`, "", "", ""},
		"darwin":  {"/Users/ada/Library/Application Support/shoal/peer", "/Users/ada/Library/Application Support/shoal/peer.toml", "ada", "/Users/ada/Library/Logs/Shoal/shoal-peer.log", ""},
	} {
		got, err := systemPlace(system, func(name string) string { return map[string]string{"ProgramData": `D:\Data`, "SUDO_USER": "ada"}[name] })
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", system, got, err)
		}
	}
	if _, err := systemPlace("darwin", func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "put sudo before") {
		t.Error(err)
	}
}

// TestServiceRun: what a service manager runs waits for settings that can be read and for membership, remembers a crash, and forgets it with an orderly end.
func TestServiceRun(t *testing.T) {
	join := manager(t)
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out buffer
	code := make(chan int, 1)
	file := filepath.Join(v.dir, "own", "peer.toml")
	go func() {
		code <- run(ctx, []string{"service", "run", "--config", file, "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"},
			streams{&out, &out, v.env, nil})
	}()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it made no file for its settings\n" + out.String())
		}
	}
	v.ok("join", join, "--yes", "--config", file)
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c, _ := v.do("status", "--config", file); c == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it did not begin after joining\n" + out.String())
		}
	}
	if s, err := service.LoadStarts(starts(data)); err != nil || s.Began.IsZero() {
		t.Errorf("a crash now would not be noticed: %+v, %v", s, err)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("status %d\n%s", c, out.String())
	}
	if s, err := service.LoadStarts(starts(data)); err != nil || s != (service.Starts{}) {
		t.Errorf("an orderly end counts as a crash: %+v, %v", s, err)
	}
}

// TestSystemCommands: --system without a system's peer, and with a file of one's own, gives a sentence.
func TestSystemCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for the folder of Linux")
	}
	if _, err := os.Stat("/var/lib/shoal-peer"); err == nil {
		t.Skip("a peer is installed on this computer")
	}
	v := newVolunteer(t)
	for args, says := range map[string]string{
		"--system status":                "sudo shoal-peer --system service install",
		"--system --config /etc/x pause": "leave --config and SHOAL_PEER_CONFIG out",
	} {
		if code, out := v.do(strings.Fields(args)...); code != 1 || !strings.Contains(out, says) {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	if out := v.ok("--system", "version"); !strings.HasPrefix(out, "shoal-peer ") {
		t.Error(out)
	}
}

// TestWindowsService: what Windows runs says elsewhere that it is not meant.
func TestWindowsService(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows itself runs it")
	}
	if code, out := newVolunteer(t).do("service", "run", "--windows-service"); code != 1 || !strings.Contains(out, "shoal-peer service install") {
		t.Errorf("%d %s", code, out)
	}
}

// TestMan: the manual page has every command that is shown, and man reads it without a warning where it is there.
func TestMan(t *testing.T) {
	page := newVolunteer(t).ok("man")
	for _, want := range []string{".SS join <join", ".SS service install", `\-\-down\-kib\-per\-s`, ".SH NAME\nshoal\\-peer \\- Crawls"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, ".SS service run") || strings.Contains(page, ".SS man") {
		t.Error("the page shows hidden commands")
	}
	man, err := exec.LookPath("man")
	if err != nil {
		return
	}
	cmd := exec.Command(man, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-")
	cmd.Stdin = strings.NewReader(page)
	var warned bytes.Buffer
	cmd.Stderr = &warned
	if err := cmd.Run(); err != nil || warned.Len() > 0 {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 {
			t.Skip("man does not work here: " + warned.String())
		}
		t.Errorf("%v\n%s", err, warned.String())
	}
}

// TestVariablesOfTheService: a command for the whole computer's peer has the variables that its service has.
func TestVariablesOfTheService(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peer.env")
	if vars, err := variables(file); err != nil || len(vars) != 0 {
		t.Errorf("of no file: %q, %v", vars, err)
	}
	if err := os.WriteFile(file, []byte("# ours\n\nSHOAL_PEER_ACCOUNT=\"example-university\"\r\n SHOAL_PEER_THREADS = 3\nPATH=/tmp\nSHOAL_PEER_LISTEN='::1'\nSHOAL_PEER_X=\"a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"SHOAL_PEER_ACCOUNT=example-university", "SHOAL_PEER_THREADS=3", "SHOAL_PEER_LISTEN=::1", `SHOAL_PEER_X="a`}
	if vars, err := variables(file); err != nil || !slices.Equal(vars, want) {
		t.Errorf("%q, %v, want %q", vars, err, want)
	}
	if _, err := variables(t.TempDir()); err == nil {
		t.Error("a file that cannot be read is no error")
	}
}

// TestServiceOnAFullDisk: a service whose crashes cannot be counted waits before each start, and runs; that they cannot be forgotten does not make its end a crash.
func TestServiceOnAFullDisk(t *testing.T) {
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	if err := os.MkdirAll(starts(data)+".new", 0o700); err != nil { // nothing can be written there
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"service", "run", "--port", "0", "--listen", "127.0.0.1", "--no-low-priority", "--control", "127.0.0.1:0", "--update-minute", "20ms"}, streams{&out, &out, v.env, nil})
	}()
	v.statusOf(func(st *status) bool { return st.State == stateUnjoined })
	if text := out.String(); !strings.Contains(text, "crashes are not counted") {
		t.Errorf("it does not say why it waits:\n%s", text)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("status %d\n%s", c, out.String())
	}
}
