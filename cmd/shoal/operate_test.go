package main

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager"
)

// Every metric that a manager exports is in the documented list, and nothing else is. It reads the list from the working directory, and so is not parallel.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`(shoal_[a-z_]+)`")
	var listed []string
	for _, m := range name.FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, m[1])
	}
	st, err := openStation(t.Context(), stationForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}()
	text := exposed(t, st)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (shoal_\S+)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(listed, m[1]) {
			t.Errorf("%s is exported, and not in docs/metrics.md", m[1])
		}
	}
	for _, n := range listed {
		if !strings.Contains(text, "# TYPE "+n+" ") && !slices.Contains(labelled, n) {
			t.Errorf("%s is in docs/metrics.md, and not exported", n)
		}
	}
}

// labelled metrics appear with the first thing that they count, or in the pond.
var labelled = []string{"shoal_pond_fresh_true_share", "shoal_pond_fresh_true_mean_share", "shoal_pond_estimate_error", "shoal_pond_placed_total", "shoal_pond_placed_rtt_seconds_total", "shoal_manager_errors_total", "shoal_manager_interval_seconds", "shoal_manager_group_channels", "shoal_wire_refused_total",
	"shoal_wire_served_total", "shoal_wire_served_seconds", "shoal_wire_called_total"}

func TestCommandsOnAStoppedManager(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		commandsOnAStoppedManager(t, stationForTest(t))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		cfg := stationForTest(t)
		cfg.db, cfg.bucket = pglab.Start(t, pglab.Options{}).URL(), s3lab.Start(t, s3lab.Options{}).URL()
		commandsOnAStoppedManager(t, cfg)
	})
}

func commandsOnAStoppedManager(t *testing.T, cfg stationConfig) {
	t.Helper()
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(list, []byte("url\nhttps://ok.example/\nftp://bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "odd.txt")
	if err := os.WriteFile(odd, []byte("https://ok.example/\nhttp://d.example:2375/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args string
		code int
		want string // in output or error
	}{
		{"channel add https://a.example/ https://b.example/x/", 0, "added 2 channels"},
		{"channel add https://a.example/", 0, "is channel 1 already"},
		{"channel add c.example https://a.example/", 0, "channel 3  c.example"},
		{"channel remove 3", 1, "--yes"},
		{"channel remove 3 --yes", 0, "removed"},
		{"channel add foo\u00a0bar", 1, "foo"},
		{"channel add https://c.example/\x1b[31mred/", 0, `https://c.example/\x1b[31mred/`},
		{"channel remove 4 --yes", 0, "removed"},
		{"channel add http://localhost:8080/", 1, "is not on the public Web"},
		{"channel add https://d.example/ http://192.168.1.1/", 1, "is not on the public Web"},
		{"channel add https://d.example:6379/", 1, "port 6379 is none"},
		{"channel import " + odd, 1, "line 2: http://d.example:2375: peers fetch from ports 80, 443"},
		{"channel add https://site-0001.pond.test/", 1, "shoal up"},
		{"channel edit 1 --group 9", 1, "no group 9: want 1"},
		{"channel edit 1 --page-bytes 2", 1, "page_bytes 2: want 0 (2 MiB), or 512 to"},
		{"channel list --state unwell", 1, "no state \"unwell\": want failing"},
		{"channel list --state new --sort host", 0, "https://a.example"},
		{"channel list --state failing", 0, "No such channel is failing"},
		{"host block misspelt.example", 1, "nothing is known of misspelt.example"},
		{"host block misspelt.example --unknown", 0, "not crawled any more"},
		{"host purge unheard-of.example --yes", 1, "nothing is known of unheard-of.example"},
		{"host reset unheard-of.example", 1, "so there is nothing to forget"},
		{"channel import " + list, 1, "line 3"},
		{"channel list", 0, "https://b.example /x/"},
		{"channel edit a.example --weight 2 --exclude \\?", 0, "channel 1 changed"},
		{"channel edit a.example", 1, "nothing to change"},
		{"channel show a.example", 0, "weight        2"},
		{"channel pause 2", 0, "paused"},
		{"channel export --format csv", 0, "https://b.example/x/"},
		{"channel crawl-now 1", 1, "stopped"},
		{"channel split 1 /n/", 0, "/n/"},
		{"channel split 1 /n/", 1, "channel 1 leaves these directories out, and they are channels already"},
		{"channel split 1 /q/ /q/", 1, "/q/ is named twice"},
		{"export --format text --body", 1, "--body"},
		{"channel edit 1 --weight 1e300", 1, "--weight 1e+300: want 0 (as all) to 1000000"},
		{"channel edit 1 --weight -1", 1, "want 0 (as all) to 1000000"},
		{"peer invite --uses -1", 1, "--uses -1: want 1 to 100000"},
		{"peer invite --uses 5000000000", 1, "--uses 5000000000: want 1 to 100000"},
		{"migrate --to elsewhere", 1, "--to elsewhere: want postgres://user:password@host:5432/database, or folder"},
		{"archive cdx --prefix", 1, "--prefix: name the URL"},
		{"plan", 1, "--capacity"},
		{"plan --capacity 3 --freshness .999", 0, "cannot be had"},
		{"plan --capacity 3 --json", 0, "\"models\": {"},
		{"plan --capacity 3 --json", 0, "\"tick_s\": 60,"},
		{"plan --capacity 3 --tick 0s", 1, "a tick of 0s"},
		{"channel add intranet", 1, "a site's name has a dot"},
		{"channel add http://intranet/", 1, "has no dot"},
		{"channel remove nowhere.example", 1, "this manager has none"},
		{"host block a.example", 0, "not crawled any more"},
		{"host list --blocked", 0, "https://a.example"},
		{"host purge a.example", 1, "--yes"},
		{"host purge a.example --yes", 0, "2 channels"},
		{"peer purge nobody", 1, "nobody has delivered nothing"},
		{"peer purge nobody --yes", 1, "nobody has delivered nothing"},
		{"peer conduct", 1, "stopped"},
		{"strategy set icr", 1, "stopped"},
		{"strategy set --new-share .3", 1, "stopped"},
		{"strategy set", 1, "name a strategy"},
		{"plan --capacity 3", 1, "no channels to plan for"},
		{"feed", 0, ""},
		{"feed --without-visitors", 0, "next: --since"},
		{"feed --deliverer nobody", 1, "was delivered by \"nobody\""},
		{"export --deliverer nobody", 1, "was delivered by \"nobody\""},
		{"archive cdx --deliverer nobody --without-visitors", 1, "was delivered by \"nobody\""},
		{"check", 0, "never backed up"},
		{"channel add https://user:secret@login.example/x/", 0, "https://login.example/x/"},
	} {
		var out, errs strings.Builder
		args := append(strings.Fields(x.args), "--data", cfg.data)
		if code := run(t.Context(), args, streams{&out, &errs}); code != x.code || !strings.Contains(out.String()+errs.String(), x.want) {
			t.Errorf("shoal %s: %d, want %d with %q in\n%s%s", x.args, code, x.code, x.want, out.String(), errs.String())
		}
	}
}

func stationForTest(t *testing.T) stationConfig {
	t.Helper()
	c := stationConfig{data: filepath.Join(t.TempDir(), "d"), listen: []string{"/ip4/127.0.0.1/tcp/0"}, log: slog.New(slog.DiscardHandler), manager: manager.Default()}
	return c
}

func exposed(t *testing.T, st *station) string {
	t.Helper()
	h, err := st.probes()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}
