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
	"shoal/manager/archive/remote"
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
	Manager string `help:"Running manager to ask; by default the one that the data folder names, when its data is in use." placeholder:"URL"`
	Token   string `help:"Operator's token; by default the one in the data folder." env:"SHOAL_TOKEN" placeholder:"TOKEN"`
}

// AfterApply finds the data that is meant: the folder itself, or the one that `shoal up` keeps in it.
func (s *Source) AfterApply() error {
	if !s.has(s.Data) {
		if found := Beneath(context.Background(), s.Data, s.has); len(found) == 1 {
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
	if s.Manager != "" && !strings.Contains(s.Manager, "://") {
		return "http://" + s.Manager
	}
	if s.Manager != "" {
		return s.Manager
	}
	if b, err := os.ReadFile(filepath.Join(s.Data, addressFile)); err == nil {
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
	pages, _ := fs.Glob(os.DirFS(filepath.Join(s.dir(), "warc")), "*.warc.gz")             // the pattern is right
	if _, err := os.Stat(filepath.Join(s.dir(), "state")); err != nil && len(pages) == 0 { // where pages are without it, Open says what to do
		return nil, fmt.Errorf("%w in %s: name the manager's data folder with --data (%w)", errNoData, s.Data, err)
	}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	return archive.Open(ctx, cfg)
}

// config opens the archive wherever the data folder says that it lies.
func (s *Source) config() (archive.Config, error) {
	return remote.Config(s.Data, archive.Config{Dir: s.dir(), Verify: refuseTasks, Beside: s.channels})
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
	if s.Manager != "" && ask != nil { // whatever lies in the folder
		return ask()
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
	b, err := os.ReadFile(filepath.Join(s.Data, addressFile))
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

// brokeOff says of an answer that ended too early where to look for the reason.
func brokeOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the manager broke its answer off; its log says why (%w)", err)
	}
	return err
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
	if err != nil && s.Manager != "" {
		return nil, fmt.Errorf("the manager that --manager names does not answer: %w", err)
	}
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
	}
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(why, &said) == nil && said.Error != "" {
		if r.StatusCode == http.StatusNotFound && strings.Contains(said.Error, archive.ErrNotFound.Error()) {
			return nil, fmt.Errorf("%w: %s", archive.ErrNotFound, said.Error)
		}
		return nil, fmt.Errorf("the manager at %s says: %s", s.manager(), said.Error)
	}
	return nil, errors.Join(fmt.Errorf("the manager at %s says: %s: %s", s.manager(), r.Status, strings.TrimSpace(string(why))), err)
}
