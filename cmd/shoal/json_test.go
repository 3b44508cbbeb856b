package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"shoal/internal/lab/jsonwords"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/internal/lab/waiting"
	"shoal/internal/plain"
)

// commands are all commands by their words. A hidden command only says where its work went.
func commands(t *testing.T) (all []*kong.Node) {
	t.Helper()
	var c cli
	p, err := kong.New(&c, kong.Name("shoal"), kong.ValueFormatter(plain.Defaults(nil)), helpVars("data"))
	if err != nil {
		t.Fatal(err)
	}
	return p.Model.Leaves(true)
}

// TestEveryCommandHasJSON goes through the tree of commands.
func TestEveryCommandHasJSON(t *testing.T) {
	leaves := commands(t)
	if len(leaves) < 40 {
		t.Fatalf("only %d commands", len(leaves))
	}
	for _, leaf := range leaves {
		has := false
		for _, level := range leaf.AllFlags(true) {
			for _, f := range level {
				has = has || f.Name == "json"
			}
		}
		if !has && nameOf(leaf) != "completion" { // that prints a script for a shell
			t.Errorf("%s has no --json", leaf.FullPath())
		}
	}
}

// byName are the keys whose objects have names of things for keys: kinds of errors, update models, hosts that crawls found.
var byName = []string{"errors", "models", "noted"}

// TestJSONIsSpeltOneWay runs every command with --json on a network that has crawled, and asks the interface for everything that it tells: the same script on a
// network in a folder, and on one on PostgreSQL and an object store.
func TestJSONIsSpeltOneWay(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		spellEveryCommand(t)
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		spellEveryCommand(t, "--db", pglab.Start(t, pglab.Options{}).URL(), "--bucket", s3lab.Start(t, s3lab.Options{}).URL())
	})
}

func spellEveryCommand(t *testing.T, places ...string) {
	t.Helper()
	data := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var up, said buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"up", "--json", "--peers", "2", "--hosts", "20", "--pages", "100", "--data", data, "--page", "127.0.0.1:0"}, places...), streams{&up, &said})
	}()
	of := filepath.Join(data, "up-pond")
	var stored string // a page
	waiting.Until(t, "a page is crawled", func() bool {
		if shownUpdates.MatchString(said.String()) {
			var c struct {
				URL string `json:"url"`
			}
			if _, out, _ := call(t, "archive", "cdx", "--json", "--data", of); json.NewDecoder(strings.NewReader(out)).Decode(&c) == nil {
				stored = c.URL
			}
		}
		return stored != ""
	}, said.String)
	done := map[string]bool{}
	spelt := func(data, args string) {
		t.Helper()
		for _, leaf := range commands(t) {
			if name := nameOf(leaf); args == name || strings.HasPrefix(args, name+" ") {
				done[name] = true
			}
		}
		full := append(strings.Fields(args), "--json")
		if data != "" {
			full = append(full, "--data", data)
		}
		code, out, said := call(t, full...)
		waiting.Until(t, "its channel is not being crawled", func() bool {
			if code != 0 && strings.Contains(said, "is being crawled already") {
				code, out, said = call(t, full...)
				return false
			}
			return true
		}, func() string { return said })
		if code != 0 && !(args == "check" && strings.Contains(said, errFound.Error())) { // on a busy machine a database may take longer than a check gives it
			t.Errorf("shoal %s --json: status %d: %s", args, code, said)
		} else if wrong := jsonwords.Complaints(out, byName...); len(wrong) > 0 {
			t.Errorf("shoal %s --json: %s\n%.2000s", args, strings.Join(wrong, "\n"), out)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup")
	for _, args := range []string{"channel list", "channel show 1", "channel edit 1 --weight 3", "channel export", "channel found", "channel pause 2", "channel resume 2",
		"channel crawl-now 2", "channel split 1 --show", "host list", "host block site-0003.pond.test", "host unblock site-0003.pond.test", "host reset site-0004.pond.test",
		"credit board --weeks 1", "credit show nobody-yet", "credit hide nobody-yet", "trust show", "trust show --peers", "trust set --shadow", "peer list", "peer list --banned", "peer conduct", "peer invite", "peer ban nobody-yet --unknown", "peer unban nobody-yet", "strategy show", "strategy try price", "strategy set price --cap 3", "check",
		"plan --capacity 3", "plan --freshness .5", "get " + stored, "export", "feed --limit 5", "archive stats", "archive cdx", "archive verify", "archive compact --captures 2 --dry-run", "archive compact",
		"key show", "managers", "backup " + backup, "channel remove 5 --yes", "channel add http://site-0004.pond.test/", "host purge site-0003.pond.test --yes"} {
		spelt(of, args)
	}
	var peers []struct {
		ID string `json:"id"`
	}
	_, list, _ := call(t, "peer", "list", "--json", "--data", of)
	if err := json.Unmarshal([]byte(list), &peers); err != nil || len(peers) == 0 {
		t.Errorf("peers: %v\n%s", err, list)
	} else {
		for _, args := range []string{"peer vouch ", "peer evidence "} {
			spelt(of, args+peers[0].ID)
		}
		spelt(of, "peer purge "+peers[0].ID+" --yes")
	}
	for _, args := range signs(t, of) {
		spelt("", args)
	}
	for _, args := range []string{"release publish " + filepath.Join(of, "..", "repo"), "release rollout v9.9.9 --share 1%", "release stop", "release status"} {
		spelt(of, args)
	}
	asked(t, said.String())
	cancel()
	if c := <-code; c != 0 {
		t.Fatalf("up ended with %d: %s", c, said.String())
	}
	if wrong := jsonwords.Complaints(up.String(), byName...); len(wrong) > 0 {
		t.Errorf("shoal up --json: %s\n%s", strings.Join(wrong, "\n"), up.String())
	}
	spelt("", "version")
	spelt(of, "key backup")
	spelt(of, "key rotate")
	spelt(of, "archive repair")
	spelt("", "restore "+backup+" --data "+filepath.Join(t.TempDir(), "restored"))
	for _, leaf := range commands(t) {
		// manager and pond print one object each, when they begin and when they end; import reads a file; the others need what is not here, such as a suspended peer or a certificate.
		switch name := nameOf(leaf); name {
		case "up", "manager", "pond", "sim", "migrate", "channel import", "key restore", "completion", "peer uphold", "peer pardon", "certificate verify":
		default:
			if !done[name] {
				t.Errorf("nothing is known of shoal %s --json", name)
			}
		}
	}
}

// signs are the commands by which a release of a program that does nothing is signed.
func signs(t *testing.T, of string) []string {
	t.Helper()
	dir, key, backup, repo := t.TempDir(), filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "backup"), filepath.Join(of, "..", "repo")
	main := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("go", "build", "-o", filepath.Join(dir, "shoal-peer"), main).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	if code, _, said := call(t, "key", "backup", "--out", backup, "--data", of); code != 0 {
		t.Fatal(said)
	}
	return []string{"release init " + repo + " --key " + key + " --backup " + backup, "release add " + dir + " --repo " + repo + " --key " + key + " --notes none --version v9.9.9",
		"release sign " + repo + " --key " + key, "release renew " + repo + " --key " + key}
}

func nameOf(leaf *kong.Node) string { return strings.TrimPrefix(leaf.FullPath(), "shoal ") }

// asked asks the interface for all that can be read without a body; said is what `up` printed of its page.
func asked(t *testing.T, said string) {
	t.Helper()
	at := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/\?token=(\w+)`).FindStringSubmatch(said)
	if at == nil {
		t.Fatalf("it does not say where its page is:\n%s", said)
	}
	get := func(path string) string {
		req, err := http.NewRequestWithContext(t.Context(), "GET", at[1]+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+at[2])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("GET %s: %s %s %v", path, resp.Status, b, err)
		}
		return string(b)
	}
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(get("/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, methods := range doc.Paths {
		path = strings.TrimPrefix(path, "/api/v1")
		if _, ok := methods["get"]; !ok || path == "/openapi.json" || path == "/archive/page" || path == "/archive/export" || path == "/archive/cdx" || path == "/credit" || path == "/peers/evidence" || path == "/trust/case" {
			continue // the first is of keys that others have set; the others are no JSON, or need a name
		}
		n++
		text := get(strings.ReplaceAll(path, "{id}", "1"))
		if text == "" && strings.HasPrefix(path, "/archive/changes") {
			continue
		}
		if wrong := jsonwords.Complaints(text, byName...); len(wrong) > 0 {
			t.Errorf("GET %s: %s\n%.2000s", path, strings.Join(wrong, "\n"), text)
		}
	}
	if n < 12 {
		t.Errorf("only %d paths were asked for", n)
	}
}
