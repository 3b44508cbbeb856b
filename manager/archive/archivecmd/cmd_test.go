package archivecmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"shoal/channel"
	"shoal/manager/archive"
)

type cli struct {
	Get     Get     `cmd:""`
	Export  Export  `cmd:""`
	Archive Archive `cmd:""`
	Backup  Backup  `cmd:""`
	Restore Restore `cmd:""`
}

// shoal runs a command line as main does.
func shoal(t *testing.T, data string, args ...string) (out, said string, err error) {
	t.Helper()
	var c cli
	var o, e bytes.Buffer
	p, err := kong.New(&c, kong.Vars{"data": data}, kong.BindTo(context.Background(), (*context.Context)(nil)), kong.Bind(IO{Out: &o, Err: &e}))
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Parse(args)
	if err == nil {
		err = k.Run()
	}
	return o.String(), e.String(), err
}

const site = "http://site.example"

// stored makes a data folder with an archive of three pages, of which one changed.
func stored(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	a := opened(t, data)
	crawl(t, a, 1, "first")
	crawl(t, a, 2, "second")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(data, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "keys", "root.key"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return data
}

func opened(t *testing.T, data string) *archive.Archive {
	t.Helper()
	a, err := archive.Open(context.Background(), archive.Config{
		Dir: filepath.Join(data, "archive"), Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func crawl(t *testing.T, a *archive.Archive, gen channel.Gen, version string) {
	t.Helper()
	ctx := context.Background()
	body := channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: site}}
	raw := body.Marshal()
	h := channel.Header{Network: [32]byte{1}, Channel: 1, Gen: gen, Host: site, Issued: time.Now(), Latest: time.Now().Add(time.Hour), BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw), Archive: "a"}
	s := channel.Signed{Raw: h.Marshal(), Sig: []byte("s"), Delegation: []byte("d")}
	if err := a.Deposit(ctx, s, raw); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(ctx, "peer", s)
	if err != nil {
		t.Fatal(err)
	}
	var b channel.ChunkBody
	for _, path := range []string{"/", "/a", "/b"} {
		text := "<title>Page " + path + "</title><p>" + strings.Repeat("some words of this page ", 20)
		if path == "/" {
			text += version
		}
		b.Pages = append(b.Pages, channel.Page{URL: site + path, Status: 200, Change: channel.New, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"), Body: []byte(text)})
	}
	b.Report = &channel.Report{Channel: 1, Gen: gen, Outcome: channel.Updated}
	z, err := channel.CompressBody(b.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(ctx, "peer", channel.Chunk{Channel: 1, Gen: gen, Seq: c.Resume.Seq + 1, Prev: c.Resume.Head, Body: z}); err != nil {
		t.Fatal(err)
	}
}

func TestCommands(t *testing.T) {
	data := stored(t)
	if out, said, err := shoal(t, data, "get", site); err != nil || !strings.HasSuffix(out, "second") || !strings.Contains(said, "status 200, text/html") {
		t.Errorf("get: %q %q %v", out, said, err)
	}
	for want, args := range map[string][]string{
		"is not stored":        {"get", site + "/never"},
		"was not stored by":    {"get", site, "--at", "2001-01-01"},
		"is no time":           {"get", site, "--at", "noon"},
		"not a Web URL":        {"get", "ftp://x/"},
		"there is no archive":  {"get", site, "--data", t.TempDir()},
		"cursor":               {"export", "--since", "rubbish"},
		"must be one of":       {"export", "--format", "pdf"},
		"leave --rebuild out":  {"archive", "repair", "--rebuild"},
		"cannot be negative":   {"archive", "compact", "--captures=-1"},
		"can't be used togeth": {"export", "--since", "x", "--cursor", "y"},
	} {
		if _, _, err := shoal(t, data, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}

	cursor := filepath.Join(t.TempDir(), "cursor")
	out, said, err := shoal(t, data, "export", "--cursor", cursor, "--limit", "2")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"title":"Page /"`) || !strings.HasPrefix(said, "next: --since ") {
		t.Errorf("export: %q %q %v", out, said, err)
	}
	file := filepath.Join(t.TempDir(), "rest.txt")
	if _, _, err := shoal(t, data, "export", "--cursor", cursor, "--format", "text", "-o", file); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), site) != 2 {
		t.Errorf("rest: %q, %v", b, err)
	}
	if _, _, err := shoal(t, data, "export", "-o", file); err == nil {
		t.Error("an export was overwritten")
	}
	if out, _, err := shoal(t, data, "archive", "cdx", site, "--prefix"); err != nil || strings.Count(out, "\n") < 4 {
		t.Errorf("cdx: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "stats"); err != nil || !strings.Contains(out, "files       1") {
		t.Errorf("stats: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "compact", "--captures", "1", "--share", "1"); err == nil || !strings.Contains(err.Error(), "--yes") || strings.Contains(err.Error(), "forget 0 versions") || out != "" {
		t.Errorf("compact forgets without being told to: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "compact", "--captures", "1", "--dry-run"); err != nil || !strings.Contains(out, "would be forgotten") || strings.HasPrefix(out, "0 versions") {
		t.Errorf("a dry run: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "compact", "--captures", "1", "--share", "1", "--yes"); err != nil || !strings.Contains(out, "1 files rewritten") {
		t.Errorf("compact: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "verify"); err != nil || !strings.Contains(out, " 0 problems") {
		t.Errorf("verify: %q, %v", out, err)
	}

	backup := filepath.Join(t.TempDir(), "backup")
	if _, _, err := shoal(t, data, "backup", backup); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shoal(t, data, "backup", backup); err == nil {
		t.Error("a backup was overwritten")
	}
	names, err := filepath.Glob(filepath.Join(data, "archive", "warc", "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.Truncate(names[0], 700); err != nil {
		t.Fatal(err)
	}
	if out, _, err := shoal(t, data, "archive", "verify"); err == nil || !strings.Contains(out, "ends here") {
		t.Errorf("verify of a damaged archive: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "repair"); err != nil || !strings.Contains(out, "to be fetched again") {
		t.Errorf("repair: %q, %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "verify"); err != nil {
		t.Errorf("verify after repair: %q, %v", out, err)
	}
	if _, _, err := shoal(t, data, "restore", backup); err == nil {
		t.Error("restored over data")
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	if out, _, err := shoal(t, fresh, "restore", backup); err != nil {
		t.Fatalf("restore: %q, %v", out, err)
	}
	if out, _, err := shoal(t, fresh, "get", site); err != nil || !strings.HasSuffix(out, "second") {
		t.Errorf("get after restore: %q, %v", out, err)
	}
	if st, err := os.Stat(fresh); err != nil || st.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("folder after restore: %v, %v", st, err)
	}
	if st, err := os.Stat(filepath.Join(fresh, "keys", "root.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key after restore: %v, %v", st, err)
	}
}

// TestLostDatabase rebuilds an archive of which the files of pages alone are left.
func TestLostDatabase(t *testing.T) {
	data := stored(t)
	if err := os.RemoveAll(filepath.Join(data, "archive", "state")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shoal(t, data, "get", site); err == nil || !strings.Contains(err.Error(), "repair --rebuild") {
		t.Errorf("a page of an archive without its database: %v", err)
	}
	if out, said, err := shoal(t, data, "archive", "repair", "--rebuild"); err != nil || !strings.HasPrefix(out, "1 files read") || !strings.Contains(said, "shoal host purge") {
		t.Errorf("rebuild: %q, %q, %v", out, said, err)
	}
	if out, _, err := shoal(t, data, "get", site); err != nil || !strings.HasSuffix(out, "second") {
		t.Errorf("get: %q, %v", out, err)
	}
}

// TestRunning asks a running manager, which wants a token.
func TestRunning(t *testing.T) {
	data := stored(t)
	a := opened(t, data)
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := http.NewServeMux()
	at := apiPath + "/archive"
	m.Handle(at+"/", http.StripPrefix(at, a.Handler()))
	asked := ""
	m.HandleFunc("POST "+apiPath+"/backup", func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = string(b)
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, "token", http.StatusUnauthorized)
			return
		}
		m.ServeHTTP(w, r)
	}))
	defer s.Close()
	if _, _, err := shoal(t, data, "get", site, "--manager", s.URL); err == nil || !strings.Contains(err.Error(), "wants a token") {
		t.Errorf("without a token: %v", err)
	}
	if err := os.WriteFile(filepath.Join(data, "operator.token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, said, err := shoal(t, data, "get", site, "--manager", s.URL); err != nil || !strings.HasSuffix(out, "second") || !strings.Contains(said, "status 200") {
		t.Errorf("get: %q %q %v", out, said, err)
	}
	if _, _, err := shoal(t, data, "get", site+"/never", "--manager", s.URL); err == nil || !strings.Contains(err.Error(), "is not stored") {
		t.Errorf("get of nothing: %v", err)
	}
	out, said, err := shoal(t, data, "export", "--manager", s.URL)
	if err != nil || strings.Count(out, "\n") != 4 || !strings.Contains(said, "--since ") {
		t.Errorf("export: %q %q %v", out, said, err)
	}
	next := strings.TrimSpace(strings.TrimPrefix(said, "next: --since "))
	if out, _, err := shoal(t, data, "export", "--manager", s.URL, "--since", next); err != nil || out != "" {
		t.Errorf("export of nothing: %q %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "cdx", "--manager", s.URL, "--limit", "2"); err != nil || strings.Count(out, "\n") != 2 {
		t.Errorf("cdx: %q %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "verify", "--manager", s.URL); err != nil || !strings.Contains(out, " 0 problems") {
		t.Errorf("verify of a running archive: %q %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "compact", "--captures", "1", "--share", "1", "--yes", "--manager", s.URL); err != nil || !strings.Contains(out, "1 files rewritten") {
		t.Errorf("compact of a running archive: %q %v", out, err)
	}
	if out, _, err := shoal(t, data, "archive", "stats", "--manager", s.URL); err != nil || !strings.Contains(out, "files       1") {
		t.Errorf("stats of a running archive: %q %v", out, err)
	}
	if _, _, err := shoal(t, data, "archive", "repair"); err == nil || !strings.Contains(err.Error(), "stop the manager first") {
		t.Errorf("repair of a running archive: %v", err)
	}
	if _, _, err := shoal(t, data, "backup", "/somewhere/new", "--manager", s.URL); err != nil || asked != `{"dir":"/somewhere/new"}` {
		t.Errorf("backup of a running manager: asked for %s, %v", asked, err)
	}
	// A database that looks damaged from outside is none of this command's business while its manager runs.
	torn := t.TempDir()
	if err := os.MkdirAll(filepath.Join(torn, "archive", "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"archive/state/MANIFEST": "nonsense", "manager.url": s.URL, "operator.token": "sesame"} {
		if err := os.WriteFile(filepath.Join(torn, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, _, err := shoal(t, torn, "get", site); err != nil || !strings.HasSuffix(out, "second") {
		t.Errorf("get beside a manager whose database looks damaged: %q, %v", out, err)
	}
	if _, _, err := shoal(t, data, "get", site, "--manager", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("no manager there: %v", err)
	}
}
