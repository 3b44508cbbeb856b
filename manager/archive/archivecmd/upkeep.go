package archivecmd

import (
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"shoal/manager/archive"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/remote"
)

// Archive is `shoal archive`: upkeep, by a running manager where one works on the data; repair wants it stopped.
type Archive struct {
	Verify  Verify  `cmd:"" help:"Read every record and both databases, check digests and index. Changes nothing."`
	Compact Compact `cmd:"" help:"Forget old versions and give their bytes back."`
	Repair  Repair  `cmd:"" help:"Make the index say only what the files hold; with --rebuild, make it anew from the files."`
	Cdx     CDX     `cmd:"" help:"Print the index as CDXJ."`
	Stats   Stats   `cmd:"" help:"Say what the archive holds."`
}

// Verify is `shoal archive verify`.
type Verify struct {
	Source `embed:""`
	JSON   bool `name:"json" help:"As JSON."`
}

// errDamaged makes verify end with a failure when there is something to mend.
var errDamaged = errors.New("something is damaged: where its line does not say what to do, `shoal archive repair` forgets what cannot be read of the archive, and the next crawls fetch it again")

// Run names every problem, one a line.
func (c *Verify) Run(ctx context.Context, to IO) error {
	return c.do(ctx, func(a *archive.Archive) error {
		v, err := a.Verify(ctx, progress(to.Err, "verifying"))
		if err != nil {
			return err
		}
		return c.tell(to, v)
	}, func() error { return c.remote(ctx, to) })
}

// remote has the running manager verify, and shows how far it is.
func (c *Verify) remote(ctx context.Context, to IO) error {
	stop := sync.OnceFunc(Watch(ctx, to.Err, c.work)) // until it is this one's turn
	defer stop()
	r, err := c.post(ctx, "/verify", nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	bar := progress(to.Err, "verifying")
	for d := json.NewDecoder(r.Body); ; {
		var line archive.Checking
		err := d.Decode(&line)
		stop()
		if err != nil {
			return fmt.Errorf("the manager's answer broke off: %w", err)
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Verified != nil:
			return c.tell(to, *line.Verified)
		case bar != nil:
			bar(line.Done, line.All)
		}
	}
}

func (c *Verify) tell(to IO, v archive.Verified) error {
	if c.JSON {
		if err := json.NewEncoder(to.Out).Encode(v); err != nil || v.Found == 0 {
			return err
		}
		return errDamaged
	}
	for _, p := range v.Problems {
		if _, err := fmt.Fprintln(to.Out, p); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(to.Out, "%d files, %d bytes, %d records, %d captures, %d problems\n", v.Files, v.Bytes, v.Records, v.Captures, v.Found); err != nil {
		return err
	}
	if v.Found > 0 {
		return errDamaged
	}
	return nil
}

// progress shows a bar on a terminal, nothing elsewhere.
func progress(w io.Writer, what string) func(done, all int64) {
	if !isTerminal(w) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, all int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(all, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		}
		_ = bar.Set64(done) // a bar that cannot be drawn is no failure
	}
}

// Compact is `shoal archive compact`.
type Compact struct {
	Source   `embed:""`
	Captures int           `help:"Versions of a page to keep, the newest ones. Default: all." placeholder:"N"`
	Age      time.Duration `help:"Forget versions older than this, but the last one of a page: 8760h is a year." placeholder:"DURATION"`
	Feed     time.Duration `help:"Forget changes of the feed older than this; older cursors are refused then." placeholder:"DURATION"`
	Share    float64       `help:"Rewrite files of which less than this share is needed." default:"0.7"`
	DryRun   bool          `help:"Only say what would be forgotten." xor:"yes"`
	Yes      bool          `help:"Forget for good; needed with --captures, --age and --feed." xor:"yes"`
	JSON     bool          `name:"json" help:"As JSON."`
}

// forgets tells whether it is asked to forget anything.
func (c *Compact) forgets() bool { return c.Captures > 0 || c.Age > 0 || c.Feed > 0 }

// Run forgets first, then compacts.
func (c *Compact) Run(ctx context.Context, to IO) error {
	if c.Captures < 0 || c.Age < 0 || c.Feed < 0 || c.Share < 0 || c.Share > 1 {
		return errors.New("--captures, --age and --feed cannot be negative, and --share is between 0 and 1")
	}
	dry := c.DryRun || c.forgets() && !c.Yes
	keep := archive.Retention{Captures: c.Captures, Age: c.Age, Feed: c.Feed}
	var done archive.Tidied
	err := c.do(ctx, func(a *archive.Archive) (err error) {
		if dry {
			done.Dry = true
			done.Forgotten, err = a.WouldForget(ctx, keep)
		} else {
			defer Watch(ctx, to.Err, func(context.Context) *archive.Work { return a.Work() })()
			done, err = a.Tidy(ctx, keep, c.Share)
		}
		return err
	}, func() error {
		defer Watch(ctx, to.Err, c.work)()
		q := url.Values{"captures": {fmt.Sprint(c.Captures)}, "age": {c.Age.String()}, "feed": {c.Feed.String()}, "share": {fmt.Sprint(c.Share)}}
		if dry {
			q.Set("dry", "1")
		}
		r, err := c.post(ctx, "/compact", q)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&done); err != nil {
			return fmt.Errorf("the manager's answer broke off: %w", err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case dry && !c.DryRun:
		return fmt.Errorf("this would forget %d versions of pages and %d changes for good: --yes does it, --dry-run only counts", done.Forgotten.Captures, done.Forgotten.Entries)
	case c.JSON:
		return json.NewEncoder(to.Out).Encode(done)
	case dry:
		_, err = fmt.Fprintf(to.Out, "%d versions and %d changes would be forgotten; nothing was changed\n", done.Forgotten.Captures, done.Forgotten.Entries)
	default:
		_, err = fmt.Fprintf(to.Out, "%d versions and %d changes forgotten, %d files rewritten, %d bytes free\n",
			done.Forgotten.Captures, done.Forgotten.Entries, done.Compacted.Files, done.Compacted.Freed)
	}
	return err
}

// Repair is `shoal archive repair`.
type Repair struct {
	Source  `embed:""`
	Rebuild bool `help:"Make a new database from the WARC files. Claims and change histories are lost; indexers start anew."`
	JSON    bool `name:"json" help:"As JSON."`
}

// Run says what it did.
func (c *Repair) Run(ctx context.Context, to IO) error {
	if c.Rebuild {
		return c.rebuild(ctx, to)
	}
	return c.do(ctx, func(a *archive.Archive) error {
		r, err := a.Repair(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(to.Out).Encode(map[string]int{"problems": r.Found, "captures_forgotten": r.Captures, "pages_to_fetch": r.Pages, "files_cut": r.Cut})
		}
		_, err = fmt.Fprintf(to.Out, "%d problems; %d captures forgotten, %d pages to be fetched again, %d files cut or gone\n", r.Found, r.Captures, r.Pages, r.Cut)
		return err
	}, nil)
}

func (c *Repair) rebuild(ctx context.Context, to IO) error {
	a, err := c.open(ctx)
	switch {
	case err == nil:
		return errors.Join(errors.New("the database can be opened: leave --rebuild out"), a.Close())
	case errors.Is(err, archive.ErrLocked):
		return fmt.Errorf("the archive in %s is in use: stop the manager first", c.Data)
	case !errors.Is(err, archive.ErrState):
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	r, err := archive.Rebuild(ctx, cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(to.Err, "what takedowns and purges of peers left in the files, as other pages have the same content, counts as pages again: repeat them (shoal host purge, shoal peer purge)"); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(to.Out).Encode(map[string]any{"files": r.Files, "captures": r.Captures, "pages": r.Pages, "damaged": r.Damaged, "old_database": r.Old})
	}
	_, err = fmt.Fprintf(to.Out, "%d files read: %d captures of %d pages, %d damaged places; the old database is in %s\n", r.Files, r.Captures, r.Pages, r.Damaged, r.Old)
	return err
}

// CDX is `shoal archive cdx`.
type CDX struct {
	Source `embed:""`
	URL    string `arg:"" optional:"" help:"Only this page. Default: everything."`
	Prefix bool   `help:"Everything that begins with URL."`
	Limit  int    `help:"At most so many lines." placeholder:"N"`
	Keys   string `enum:"webrecorder,surt" default:"webrecorder" help:"By which keys readers look for a URL: webrecorder (ReplayWeb.page, wabac) or surt (pywb)."`
	Choice `embed:""`
	JSON   bool `name:"json" help:"As one JSON object a line, with urlkey and timestamp among its keys."`
}

// Run prints sorted lines.
func (c *CDX) Run(ctx context.Context, to IO) error {
	if c.Prefix && c.URL == "" {
		return errors.New("--prefix: name the URL with which everything begins; without --prefix and URL the whole index is printed")
	}
	out := to.Out
	if c.JSON {
		out = &cdxObjects{to: to.Out}
	}
	return c.do(ctx, func(a *archive.Archive) error {
		keys, err := pages.ParseKeys(c.Keys)
		if err != nil {
			return err
		}
		return a.CDXJ(ctx, out, pages.Index{URL: c.URL, Prefix: c.Prefix, Limit: c.Limit, Keys: keys, Filter: c.filter()})
	}, func() error {
		q := url.Values{"url": {c.URL}, "keys": {c.Keys}}
		if c.Prefix {
			q.Set("prefix", "1")
		}
		if c.Limit > 0 {
			q.Set("limit", fmt.Sprint(c.Limit))
		}
		c.Ask(q)
		r, err := c.get(ctx, "/cdx", q)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r.Body)
		return errors.Join(brokeOff(err), r.Body.Close())
	})
}

// cdxObjects writes lines of CDXJ as JSON objects: key and time, which precede the object of a line, become members of it.
type cdxObjects struct {
	to   io.Writer
	rest []byte // of a line that has not ended
}

func (w *cdxObjects) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		key, rest, _ := bytes.Cut(w.rest[:i], []byte(" "))
		at, object, ok := bytes.Cut(rest, []byte(" {"))
		if !ok {
			return 0, fmt.Errorf("%q is no line of CDXJ", w.rest[:i])
		}
		head, err := json.Marshal(struct {
			Key string `json:"urlkey"`
			At  string `json:"timestamp"`
		}{string(key), string(at)})
		if err != nil {
			return 0, err
		}
		head[len(head)-1] = ','
		if _, err := w.to.Write(append(append(head, object...), '\n')); err != nil {
			return 0, err
		}
		w.rest = w.rest[i+1:]
	}
}

// Stats is `shoal archive stats`.
type Stats struct {
	Source `embed:""`
	JSON   bool `name:"json" help:"As JSON."`
}

// Run prints one figure a line.
func (c *Stats) Run(ctx context.Context, to IO) error {
	tell := func(s archive.Stats) error {
		if c.JSON {
			return json.NewEncoder(to.Out).Encode(s)
		}
		pages := "pages       not counted yet; the manager counts them soon after its start\n"
		if !s.Counted.IsZero() {
			pages = fmt.Sprintf("pages       %d stored now\nverified    %d of them\nprovisional %d\nwithdrawn   %d\n", s.Verified+s.Provisional+s.Withdrawn, s.Verified, s.Provisional, s.Withdrawn)
		}
		_, err := fmt.Fprintf(to.Out, "%sfiles       %d\n\nsince the archive began\nversions    %d of pages stored, of %d bytes\nunchanged   %d visits that found what was stored\nchunks      %d\nchanges     %d told in the feed\n",
			pages, s.Files, s.Pages, s.Bytes, s.Unchanged, s.Chunks, s.Events)
		if err == nil && s.Work != nil {
			_, err = fmt.Fprintf(to.Out, "\nat work     %s\n", s.Work)
		}
		return err
	}
	return c.do(ctx, func(a *archive.Archive) error {
		if _, err := a.Census(ctx); err != nil {
			return err
		}
		return tell(a.Stats())
	}, func() error {
		r, err := c.get(ctx, "/stats", nil)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		var s archive.Stats
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			return fmt.Errorf("the manager's answer broke off: %w", err)
		}
		return tell(s)
	})
}

// Backup is `shoal backup`: everything in a manager's data folder, be it stopped or running.
type Backup struct {
	Source `embed:""`
	To     string `arg:"" help:"New folder for the backup. It will hold the network's keys: keep it secret." type:"path"`
	JSON   bool   `name:"json" help:"As JSON."`
}

// Run backs up the archive through its own backup and copies everything else as it is. A running manager does it itself.
func (c *Backup) Run(ctx context.Context, to IO) error {
	stopped := false
	err := c.do(ctx, func(*archive.Archive) error {
		stopped = true
		return nil
	}, func() error {
		stop := Watch(ctx, to.Err, c.work)
		err := c.remote(ctx)
		stop()
		if err != nil {
			return err
		}
		return c.seen()
	})
	if err == nil && stopped {
		err = Whole(c.Data, c.To, func(part string) error { return c.here(ctx, part, to.Channels) })
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(to.Out).Encode(map[string]string{"folder": c.To})
	}
	where := ""
	if c.Manager != "" {
		where = " on the manager's machine"
	}
	_, err = fmt.Fprintf(to.Out, "backup in %s%s\n", c.To, where)
	return err
}

// here copies all that a stopped manager has. Channels on a server come first, and the archive is opened after that: other managers may work on both, and what the
// archive tells after the copy of the channels is taken in again when the backup is used.
func (c *Backup) here(ctx context.Context, part string, channels func(ctx context.Context, data, dir string) error) error {
	but := append([]string{"archive"}, NotData...)
	if channels != nil {
		copied := filepath.Join(part, "channels")
		if err := channels(ctx, c.Data, copied); err != nil {
			return err
		}
		if _, err := os.Stat(copied); err == nil { // what the folder has of that name was left by a migration that was broken off
			but = append(but, "channels")
		}
	}
	return c.do(ctx, func(a *archive.Archive) error {
		if err := a.Backup(ctx, filepath.Join(part, "archive")); err != nil {
			return err
		}
		return CopyTree(ctx, c.Data, part, but...)
	}, nil)
}

func (c *Backup) remote(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"dir": c.To})
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, http.MethodPost, apiPath+"/backup", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// seen says if a backup is not where it was asked for, though the manager is on this machine.
func (c *Backup) seen() error {
	if c.Manager != "" {
		return nil
	}
	if _, err := os.Stat(c.To); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the manager has made the backup, and %s is not there for you: its service has a /tmp of its own, which goes when it stops; name a folder that both see, such as %s-backups/%s, if the service may write there",
			c.To, filepath.Clean(c.Data), filepath.Base(c.To))
	}
	return nil
}

// Whole makes a copy of the folder data in dir, by way of another one beside that, so that there is all of it or nothing. dir must not exist, nor lie in
// data: the copy would then copy itself until the disk is full.
func Whole(data, dir string, make func(part string) error) error {
	if in, err := within(data, dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	} else if in {
		return fmt.Errorf("%s lies in the data folder %s: name a folder for the backup outside of it, best on another disk", dir, data)
	}
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists already: a backup wants a new folder", dir)
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part, 0o700); err != nil { // keys will be in it
		return err
	}
	if err := make(part); err != nil {
		return fmt.Errorf("backup: %w", errors.Join(err, os.RemoveAll(part)))
	}
	return os.Rename(part, dir)
}

// within reports whether dir, which need not exist, lies in the folder root, by whatever links.
func within(root, dir string) (bool, error) {
	root, err := resolved(root)
	if err != nil {
		return false, err
	}
	if dir, err = resolved(dir); err != nil {
		return false, err
	}
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), nil
}

// resolved is the absolute path of a folder without links, as far as it exists.
func resolved(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
		return real, err
	}
	parent, err := resolved(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

// Restore is `shoal restore`: a data folder from a backup.
type Restore struct {
	From string `arg:"" help:"Folder of the backup." type:"existingdir"`
	Data string `help:"New data folder." default:"${data}" type:"path" placeholder:"DIR"`
	JSON bool   `name:"json" help:"As JSON."`
}

// Run writes into an empty folder only. It may be one that a link leads to, as that of a service is.
func (c *Restore) Run(ctx context.Context, to IO) error {
	if names, err := os.ReadDir(c.Data); err == nil && len(names) > 0 {
		if st, err := os.Lstat(c.Data); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is not empty: move what is in it elsewhere; leave the folder itself, a link, as its service made it", c.Data)
		}
		return fmt.Errorf("%s is not empty: move what is in it elsewhere, or name a new data folder with --data", c.Data)
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil { // keys will be in it
		return err
	}
	if err := archive.Restore(ctx, filepath.Join(c.From, "archive"), filepath.Join(c.Data, "archive")); err != nil {
		return err
	}
	if err := CopyTree(ctx, c.From, c.Data, "archive"); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if c.JSON {
		return json.NewEncoder(to.Out).Encode(map[string]string{"folder": c.Data})
	}
	_, err := fmt.Fprintf(to.Out, "restored to %s; what was issued after the backup is passed over when the manager starts\n", c.Data)
	return err
}

// NotData are patterns of what may lie at the top of a data folder and is of no use elsewhere: where a manager runs and its servers are, its reserve on the disk, and
// what migrations leave behind, be they done or broken off.
var NotData = []string{addressFile, "reserve", remote.DatabaseFile, remote.BucketFile, "migrating", "migrate-*", "*.part", "*.before-*"}

// CopyTree copies files with their permissions, all but those at the top whose names match patterns, and locks. What goes away meanwhile is left out. from may be a link,
// as the folder of a service is; a link to a file counts as that file.
func CopyTree(ctx context.Context, from, to string, but ...string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		leaves := slices.ContainsFunc(but, func(pattern string) bool {
			is, err := filepath.Match(pattern, rel)
			return is && err == nil
		})
		switch {
		case leaves && d.IsDir():
			return fs.SkipDir
		case leaves:
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			st, err := os.Stat(path)
			if err == nil && st.IsDir() {
				return fmt.Errorf("%s is a link to a folder, which would not be copied: put the folder itself there", path)
			}
			if err != nil || !st.Mode().IsRegular() {
				return nil
			}
		case !d.Type().IsRegular(), strings.EqualFold(d.Name(), "LOCK"):
			return nil
		}
		if err := copyFile(path, filepath.Join(to, rel)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, st.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
