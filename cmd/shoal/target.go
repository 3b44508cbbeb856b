package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/order"
	"shoal/internal/member"
	"shoal/manager"
	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/archive/archivecmd"
	"shoal/manager/archive/remote"
	"shoal/manager/desk"
)

// target is the manager that a command is about: a running one, or the data of a stopped one.
type target struct {
	Data    string `help:"The manager's data folder." default:"${data}" type:"path" placeholder:"DIR"`
	Manager string `help:"Address of a running manager, if it does not run on this data folder." placeholder:"URL"`
	Token   string `help:"Operator's token; by default the one in the data folder." env:"SHOAL_TOKEN" placeholder:"TOKEN"`
	JSON    bool   `name:"json" help:"As JSON: the manager's own answer."`

	text *textOut // where words go; nil: the command prints JSON by itself
}

// AfterApply implements kong's hook.
func (t *target) AfterApply(text *textOut) error { t.text = text; return nil }

// textOut is standard output for words. With --json they are left out, and the manager's answers stand there.
type textOut struct {
	w   io.Writer
	off bool
}

func (t *textOut) Write(b []byte) (int, error) {
	if t.off {
		return len(b), nil
	}
	return t.w.Write(b)
}

// errNoManager is returned where nothing is found to work on.
var errNoManager = errors.New("no manager here")

// with calls f with a client of the manager. live says that a stopped one will not do. With --json the answers are printed as they come.
func (t *target) with(ctx context.Context, live bool, f func(*api.Client) error) error {
	if !t.JSON || t.text == nil {
		return t.client(ctx, live, f)
	}
	t.text.off = true
	return t.client(ctx, live, func(a *api.Client) error {
		a.Echo = t.text.w
		return f(a)
	})
}

func (t *target) client(ctx context.Context, live bool, f func(*api.Client) error) (err error) {
	if t.Manager != "" {
		c, err := t.remote(t.Data, t.Manager)
		if err != nil {
			return err
		}
		return f(c)
	}
	data, err := dataOf(t.Data)
	if err != nil {
		return err
	}
	files, broken := openStopped(ctx, data)
	if broken == nil {
		defer func() { err = errors.Join(err, files.Close()) }()
	}
	var db database
	if !errors.Is(broken, archive.ErrLocked) {
		db, err = openDatabase(ctx, data, "", [32]byte{}, nil)
	}
	if errors.Is(broken, archive.ErrLocked) || errors.Is(err, badgerdb.ErrLocked) {
		return t.running(data, f)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if live {
		return fmt.Errorf("the manager of %s is stopped: %w; start it with `%s`", data, errNoManager, starts(data))
	}
	var takedown desk.Archive
	var pages http.Handler
	if broken == nil {
		takedown, pages = files, files.Handler()
	} else { // channels can be worked on without it
		takedown = noArchive{broken}
		pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, broken.Error(), http.StatusServiceUnavailable)
		})
	}
	d, err := desk.Open(ctx, desk.Config{Store: db, Archive: takedown, Orders: order.Live(), Reach: reachOf(data), Starts: starts(data)})
	if err != nil {
		return err
	}
	h, err := api.Handler(api.Config{Desk: d, Archive: pages})
	if err != nil {
		return err
	}
	return f(api.Local(h))
}

// running calls f with the manager that works on a data folder.
func (t *target) running(data string, f func(*api.Client) error) error {
	url, err := os.ReadFile(filepath.Join(data, addressFile))
	if err != nil {
		return fmt.Errorf("a program works on %s and serves no page to ask; name its address with --manager, or stop it (%w)", data, err)
	}
	c, err := t.remote(data, strings.TrimSpace(string(url)))
	if err != nil {
		return err
	}
	return f(c)
}

// noArchive stands where an archive cannot be opened.
type noArchive struct{ err error }

func (n noArchive) Purge(context.Context, channel.Hosts) (int, error) { return 0, n.err }
func (n noArchive) Withdraw(context.Context, string) (manager.Withdrawn, error) {
	return manager.Withdrawn{}, n.err
}
func (n noArchive) Recall(context.Context, channel.ID) error { return nil } // else nothing could be removed or blocked meanwhile
func (n noArchive) Forget(context.Context, channel.ID) error { return n.err }

// noTasks stands where a running archive checks tasks.
func noTasks(time.Time, channel.Signed) (channel.Header, error) {
	return channel.Header{}, errNoManager
}

func (t *target) remote(data, url string) (*api.Client, error) {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	token := t.Token
	if token == "" {
		text, err := member.ReadSecret(filepath.Join(data, "operator.token"))
		if err != nil {
			return nil, fmt.Errorf("the operator's token is needed: give --token or SHOAL_TOKEN, or --data with the folder that has it (%w)", err)
		}
		token = strings.TrimSpace(text)
	}
	return &api.Client{Base: url, Token: token, HTTP: &http.Client{}}, nil
}

// dataOf finds the data of a manager: the folder itself, or the one that `shoal up` keeps in it.
func dataOf(dir string) (string, error) {
	var refused error
	holds := func(at string) bool {
		_, folder := os.Stat(filepath.Join(at, channelsFolder))
		if errors.Is(folder, fs.ErrPermission) {
			refused = fmt.Errorf("there is no permission to look into %s: run this as the user whose folder it is, or with sudo", at)
		}
		_, server := os.Stat(filepath.Join(at, remote.DatabaseFile))
		return folder == nil || server == nil
	}
	found := archivecmd.Beneath(context.Background(), dir, holds)
	if holds(dir) {
		found = append([]string{dir}, found...)
	}
	if len(found) > 1 { // the one that runs, if only one does
		var running []string
		for _, at := range found {
			if _, err := os.Stat(filepath.Join(at, addressFile)); err == nil {
				running = append(running, at)
			}
		}
		if len(running) == 1 {
			found = running
		} else if holds(dir) { // it was named
			found = []string{dir}
		}
	}
	if refused != nil && len(found) == 0 {
		return "", refused
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: %s holds no channel database; name the manager's data folder with --data, or start one with `shoal manager`", errNoManager, dir)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%s holds several managers' data: name one with --data: %s", dir, strings.Join(found, " or "))
}
