// Package archivecmd is the command line of the archive: shoal get, export, archive, backup and restore, as structs for kong. Reading
// commands work on a stopped archive's data and against a running manager alike.
//
// It decides nothing that package archive could.
package archivecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	"shoal/channel/badgerdb/tables"
	"shoal/internal/member"
	"shoal/manager/archive"
)

// IO is where a command writes: Out is what was asked for, Err what is said about it.
type IO struct {
	Out, Err io.Writer
	// Channels copies the channel database of a stopped manager into a new folder, if it lies outside of the data
	// folder. Nil: it never does.
	Channels func(ctx context.Context, data, dir string) error
}

// Source is where the archive is: in a data folder, or behind a running manager.
type Source struct {
	Data    string `help:"Data folder of the manager; used when none runs on it." default:"${data}" type:"path" placeholder:"DIR"`
	Manager string `help:"Running manager to ask when its data is in use; by default the one that the data folder names." placeholder:"URL"`
	Token   string `help:"Operator's token; by default the one in the data folder." env:"SHOAL_TOKEN" placeholder:"TOKEN"`
}

// AfterApply finds the data that is meant: the folder itself, or the one that `shoal up` keeps in it.
func (s *Source) AfterApply() error {
	if !s.has(s.Data) {
		var found []string
		for _, sub := range []string{"up-web", "up-pond"} {
			if at := filepath.Join(s.Data, sub); s.has(at) {
				found = append(found, at)
			}
		}
		if len(found) == 1 {
			s.Data = found[0]
		}
	}
	return nil
}

func (s *Source) has(data string) bool {
	_, err := os.Stat(filepath.Join(data, "archive", "state"))
	return err == nil
}

const defaultManager = "http://127.0.0.1:7780"

// manager is the address of the running manager: as given, or as it says itself in its data folder.
func (s *Source) manager() string {
	if s.Manager != "" {
		return s.Manager
	}
	if b, err := os.ReadFile(filepath.Join(s.Data, "manager.url")); err == nil {
		return strings.TrimSpace(string(b))
	}
	return defaultManager
}

// apiPath is where the manager serves its interface; archive.Handler is at archive below it.
const apiPath = "/api/v1"

// errNoData is returned where there is no archive.
var errNoData = errors.New("there is no archive")

// dir is the archive's folder.
func (s *Source) dir() string { return filepath.Join(s.Data, "archive") }

// open opens a stopped archive. It never makes one.
func (s *Source) open(ctx context.Context) (*archive.Archive, error) {
	if _, err := os.Stat(filepath.Join(s.dir(), "state")); err != nil {
		return nil, fmt.Errorf("%w in %s: name the manager's data folder with --data (%w)", errNoData, s.Data, err)
	}
	return archive.Open(ctx, s.config())
}

func (s *Source) config() archive.Config {
	return archive.Config{Dir: s.dir(), Verify: refuseTasks, Beside: s.channels}
}

// channels looks at the channel database of a stopped manager, where there is one.
func (s *Source) channels(ctx context.Context) ([]archive.Problem, error) {
	err := tables.CheckFolder(ctx, badger.DefaultOptions(filepath.Join(s.Data, "channels")))
	switch {
	case errors.Is(err, tables.ErrInUse): // the process that uses it checks it
		return nil, nil
	case errors.Is(err, tables.ErrChanged):
		return []archive.Problem{{File: "channels", What: err.Error() + ": restore a backup, bring that file back as it was, or move the folder away and import the channels again"}}, nil
	}
	return nil, err
}

// refuseTasks stands where a running archive checks tasks: these commands take none.
func refuseTasks(time.Time, channel.Signed) (channel.Header, error) {
	return channel.Header{}, errors.New("archivecmd: takes no tasks")
}

// do works on a stopped archive; if it is in use, or a manager is named, ask is called instead. A nil ask says that it must be stopped.
func (s *Source) do(ctx context.Context, local func(*archive.Archive) error, ask func() error) (err error) {
	if _, serr := os.Stat(filepath.Join(s.dir(), "state")); serr != nil && s.Manager != "" && ask != nil {
		return ask() // one elsewhere
	}
	a, err := s.open(ctx)
	if errors.Is(err, archive.ErrLocked) && ask != nil {
		return ask()
	}
	if errors.Is(err, archive.ErrLocked) {
		return fmt.Errorf("the archive in %s is in use: stop the manager first", s.Data)
	}
	if err != nil && ask != nil && s.runs(ctx) {
		return ask() // what is being written to may look damaged from outside
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return local(a)
}

// runs tells whether the manager that the data folder names answers.
func (s *Source) runs(ctx context.Context) bool {
	b, err := os.ReadFile(filepath.Join(s.Data, "manager.url"))
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(b))+"/healthz", nil)
	if err != nil {
		return false
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return r.Body.Close() == nil
}

// get asks the running manager's archive. The caller closes the body.
func (s *Source) get(ctx context.Context, path string, q url.Values) (*http.Response, error) {
	return s.ask(ctx, http.MethodGet, apiPath+"/archive"+path+"?"+q.Encode(), nil)
}

// post has it do something.
func (s *Source) post(ctx context.Context, path string, q url.Values) (*http.Response, error) {
	return s.ask(ctx, http.MethodPost, apiPath+"/archive"+path+"?"+q.Encode(), nil)
}

func (s *Source) ask(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.manager(), "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("--manager %s: %w", s.Manager, err)
	}
	token := s.Token
	if token == "" {
		text, err := member.ReadSecret(filepath.Join(s.Data, "operator.token"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the operator's token: %w", err)
		}
		token = strings.TrimSpace(text)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the data in %s is in use, and the manager does not answer: %w; name it with --manager", s.Data, err)
	}
	if r.StatusCode == http.StatusOK {
		return r, nil
	}
	why, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	err = errors.Join(err, r.Body.Close())
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the manager at %s wants a token: give --token, or --data with the folder that has one", s.manager())
	case http.StatusNotFound:
		if strings.Contains(string(why), "archive:") {
			return nil, fmt.Errorf("%w: %s", archive.ErrNotFound, strings.TrimSpace(string(why)))
		}
	}
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(why, &said) == nil && said.Error != "" {
		return nil, fmt.Errorf("the manager at %s says: %s", s.manager(), said.Error)
	}
	return nil, errors.Join(fmt.Errorf("the manager at %s says: %s: %s", s.manager(), r.Status, strings.TrimSpace(string(why))), err)
}

// Get prints a stored page.
type Get struct {
	Source `embed:""`
	URL    string `arg:"" help:"Page to print."`
	At     string `help:"As it was then: 2026-05-01, 2026-05-01T12:00:00Z or 20260501120000. Default: as it is." placeholder:"TIME"`
}

// Run prints the page's content; when and how it was fetched goes to Err.
func (c *Get) Run(ctx context.Context, io IO) error {
	at, err := archive.ParseTime(c.At)
	if err != nil {
		return err
	}
	if _, err := channel.Canonical(c.URL); err != nil {
		return err
	}
	return c.do(ctx, func(a *archive.Archive) error {
		p, err := a.Get(ctx, c.URL, at)
		if err != nil {
			return c.hint(err)
		}
		if _, err := io.Out.Write(p.Body); err != nil {
			return err
		}
		_, err = fmt.Fprintf(io.Err, "fetched %s, status %d, %s, %d bytes%s\n", p.Fetched.Format(time.RFC3339), p.Status, orNone(p.Mime), len(p.Body), delivered(p.Deliverer, p.ShowsVisitor))
		return err
	}, func() error { return c.remote(ctx, io) })
}

func (c *Get) remote(ctx context.Context, to IO) error {
	q := url.Values{"url": {c.URL}}
	if c.At != "" {
		q.Set("at", c.At)
	}
	r, err := c.get(ctx, "/page", q)
	if err != nil {
		return c.hint(err)
	}
	n, err := io.Copy(to.Out, r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.Err, "fetched %s, status %s, %s, %d bytes%s\n", r.Header.Get("Shoal-Fetched"), r.Header.Get("Shoal-Status"), r.Header.Get("Content-Type"), n,
		delivered(r.Header.Get("Shoal-Deliverer"), r.Header.Get("Shoal-Shows-Visitor") == "true"))
	return err
}

// delivered says who delivered a page, and whether it shows that.
func delivered(by string, shows bool) (text string) {
	if by != "" {
		text = ", delivered by " + by
	}
	if shows {
		text += ", shows the address of the volunteer who fetched it"
	}
	return text
}

func (c *Get) hint(err error) error {
	if !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	if !strings.HasSuffix(err.Error(), archive.ErrNotFound.Error()) {
		return fmt.Errorf("%s: %w", c.URL, err) // it should be there
	}
	if c.At != "" {
		return &absent{fmt.Sprintf("%s was not stored by %s: leave --at out for the last visit", c.URL, c.At), err}
	}
	return &absent{c.URL + " is not stored: http and https, and with or without www, are different pages", err}
}

// absent says in its own words that a page is not found.
type absent struct {
	text string
	err  error
}

func (e *absent) Error() string { return e.text }
func (e *absent) Unwrap() error { return e.err }

func orNone(s string) string {
	if s == "" {
		return "no type"
	}
	return s
}

// Choice are the flags that choose among captures or changes.
type Choice struct {
	Deliverer       string `help:"Only what this peer or account has delivered; or the deliverer that captures name (d-...)." placeholder:"NAME"`
	WithoutVisitors bool   `help:"Leave out pages that show the address of the volunteer who fetched them."`
}

func (c *Choice) filter() archive.Filter {
	return archive.Filter{Deliverer: c.Deliverer, WithoutVisitors: c.WithoutVisitors}
}

// Ask puts the choice into the parameters of a request.
func (c *Choice) Ask(q url.Values) {
	if c.Deliverer != "" {
		q.Set("deliverer", c.Deliverer)
	}
	if c.WithoutVisitors {
		q.Set("without_visitors", "1")
	}
}

// Export writes what changed since a cursor.
type Export struct {
	Source `embed:""`
	Since  string `help:"Go on after this cursor; it was printed by the export before. Default: from the beginning." placeholder:"CURSOR" xor:"since"`
	Cursor string `help:"Keep the cursor in this file: read before, replaced after." type:"path" placeholder:"FILE" xor:"since"`
	Format string `help:"warc, json (one object a line, with text and links) or text." enum:"warc,json,text" default:"json"`
	Body   bool   `help:"With json: the page as it came too, in base64."`
	Limit  int    `help:"At most so many changes." placeholder:"N"`
	Choice `embed:""`
	Out    string `short:"o" help:"Write to this new file instead of standard output." type:"path" placeholder:"FILE"`
}

// Run writes the export; the cursor for the next one goes to Err, and to the cursor file when everything is written.
func (c *Export) Run(ctx context.Context, to IO) (err error) {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0 (no limit) or more", c.Limit)
	}
	since := c.Since
	if c.Cursor != "" {
		b, err := os.ReadFile(c.Cursor)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the cursor: %w", err)
		}
		since = strings.TrimSpace(string(b))
	}
	var w = to.Out
	var f *os.File
	if c.Out != "" {
		if f, err = os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
		w = f
	}
	next, err := c.export(ctx, w, since)
	if f != nil {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		if next != "" && next != since {
			return fmt.Errorf("%w\nwhat was written is whole up to --since %s", err, next)
		}
		return err
	}
	if c.Cursor != "" && next != "" {
		if err := replace(c.Cursor, next+"\n"); err != nil {
			return fmt.Errorf("keep the cursor %s: %w", next, err)
		}
	}
	_, err = fmt.Fprintf(to.Err, "next: --since %s\n", next)
	return err
}

func (c *Export) export(ctx context.Context, w io.Writer, since string) (next string, err error) {
	err = c.do(ctx, func(a *archive.Archive) error {
		next, err = a.Export(ctx, w, archive.ExportOptions{Since: since, Format: archive.Format(c.Format), Body: c.Body, Limit: c.Limit, Filter: c.filter()})
		return err
	}, func() error {
		q := url.Values{"since": {since}, "format": {c.Format}}
		if c.Body {
			q.Set("body", "1")
		}
		if c.Limit > 0 {
			q.Set("limit", fmt.Sprint(c.Limit))
		}
		c.Ask(q)
		r, err := c.get(ctx, "/export", q)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r.Body)
		next = r.Trailer.Get(archive.CursorHeader)
		return errors.Join(err, r.Body.Close())
	})
	return next, err
}

// replace writes a small file so that there is the old one or the new one.
func replace(name, content string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".cursor-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
