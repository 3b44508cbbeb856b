package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPage looks at the manager's page with a real browser.
func TestPage(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal("no chromium here, and SHOAL_TEST_STRICT=1 wants it: apt-get install chromium")
		}
		t.Skip("no chromium here: the page is not looked at (apt-get install chromium)")
	}
	p := start(t, "shoal", "up", "--peers", "2", "--hosts", "5", "--pages", "20", "--data", t.TempDir(), "--page", "127.0.0.1:0")
	g := pageOf(p, "page ")
	p.until("has an update", func() bool { return g.overview().Updates > 0 })
	for path, want := range map[string][]string{
		"/":         {"Updates a minute", "Priority groups", "<svg", "icr"},
		"/channels": {"site-0000.pond.test", "site-0004.pond.test"},
		"/peers":    {"2 peers in coordinate space"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(),
			"--virtual-time-budget=2000", "--dump-dom", g.base+path)
		cmd.WaitDelay = 5 * time.Second
		dom, err := cmd.Output()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, w := range want {
			if !strings.Contains(string(dom), w) {
				t.Errorf("%s does not show %q:\n%.3000s", path, w, dom)
			}
		}
	}
	p.end()
}
