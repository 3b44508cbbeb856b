package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// bothWidths looks at a page with axe-core, on a wide screen and a phone's.
func (b *browser) bothWidths(axe, name string) {
	b.t.Helper()
	for _, width := range []int{360, 1280} {
		b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
		if over := b.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
			b.t.Errorf("%s: the page is %s pixels wider than its window of %d", name, over, width)
		}
		for _, f := range b.faults(axe) {
			b.t.Errorf("%s, %d pixels wide: %s: %s: %s", name, width, f.Impact, f.Help, f.places())
		}
		b.picture(fmt.Sprintf("%s-%d", name, width))
	}
}

// TestUpdatesInTheBrowser rolls a release out at the manager's page, and refuses and takes it at the volunteer's. The release is a program that ends at once, so
// that the computer goes back, which both pages tell.
func TestUpdatesInTheBrowser(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	axe := axeScript(t)
	b := openBrowser(t)
	n := newUpdateNet(t)
	ends := built(t, "v1.1.0", "package main\n\nfunc main() {}\n")
	n.shoal("release", "add", ends, "--repo", n.repo, "--key", n.key, "--notes", "Fetches faster", "--version", "v1.1.0")
	n.shoal("release", "publish", n.repo, "--data", n.data)

	manager := func(shows string) { b.open(n.page.base+"/releases", shows) }
	press := func(label string) {
		t.Helper()
		find := "[...document.querySelectorAll('main button')].find(x => (x.getAttribute('aria-label') || x.textContent.trim()) === " + quote(label) + ")"
		b.until("has the button "+label, "!!"+find)
		b.navigate("window.confirm = () => true; " + find + ".click()")
	}
	manager("Log in as operator") // without a token nobody sees it
	b.open(n.page.base+"/login", "Log in as operator")
	b.navigate(fmt.Sprintf("document.querySelector('input[name=token]').value = %q; document.querySelector('main form').submit()", n.page.token))
	manager("Nothing is rolled out.")
	b.shows("Fetches faster")
	b.bothWidths(axe, "releases-signed")
	press("Roll v1.1.0 out to 100%")
	b.shows("v1.1.0 is given to 100% of all peers")

	at := fmt.Sprint("127.0.0.1:", unusedPort(t))
	cmd := exec.Command(filepath.Join(built(t, "v1.0.0", ""), "shoal-peer"), "run", "--data", n.is, "--pond", n.pond, "--port", "0", "--listen", "127.0.0.1", "--control", at, "--update", "ask", "--update-minute", "1s",
		"--no-quic", "--no-low-priority", "--busy-percent", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	n.peer = launch(t, "shoal-peer", cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // all of its versions; none may be left
	n.peer.until("is offered the release", func() bool {
		look := start(t, "shoal-peer", "update", "look", "--data", n.is)
		<-look.done
		return n.told().Offered == "v1.1.0"
	})
	b.enter(strings.TrimSpace(n.ran("shoal-peer", "open", "--print", "--data", n.is)), "Pause for an hour")
	b.view("health", "version v1.1.0 is offered: take it or refuse it")
	b.shows("Fetches faster")
	b.bothWidths(axe, "home-health-offered")
	b.press("Refuse it")
	b.shows("you have refused version v1.1.0")
	b.bothWidths(axe, "home-health-refused")
	b.press("Take the update now")
	n.peer.until("goes back", func() bool {
		u := n.told()
		return u.Version == "v1.0.0" && len(u.Refused) == 1 && u.Refused[0].Why == "crashed 3 times"
	})
	b.shows("this computer went back from version v1.1.0, because it crashed 3 times")
	b.until("offers it no more", "![...document.querySelectorAll('main button')].some(x => x.textContent === 'Take the update now')")

	n.boss.until("is told", func() bool {
		n.ran("shoal-peer", "update", "look", "--data", n.is)
		return n.releases().Rollout.Fell == 1
	})
	manager("it crashed 3 times")
	b.bothWidths(axe, "releases-rolled-out")
	press("Stop the roll-out")
	b.shows("The roll-out of v1.1.0 has stopped")
	b.bothWidths(axe, "releases-stopped")
}
