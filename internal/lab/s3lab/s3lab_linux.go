package s3lab

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// Store is one bucket.
type Store struct {
	name   string
	gate   *gateway
	front  *httptest.Server
	faults atomic.Pointer[func(*http.Request) Fault]
}

// Start makes a bucket, and removes it at the test's end.
func Start(t testing.TB, o Options) *Store {
	t.Helper()
	g, err := enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{gate: g, name: fmt.Sprintf("bucket-%d", g.buckets.Add(1))}
	if err := os.Mkdir(filepath.Join(g.root, s.name), 0o755); err != nil {
		t.Fatal(errors.Join(err, g.leave()))
	}
	s.front = httptest.NewUnstartedServer(s)
	s.front.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that were broken on purpose
	if o.TLS {
		s.front.StartTLS()
	} else {
		s.front.Start()
	}
	t.Cleanup(func() {
		s.front.CloseClientConnections()
		s.front.Close()
		if err := g.leave(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Break has f decide what becomes of each request from now on; nil: all pass.
func (s *Store) Break(f func(*http.Request) Fault) {
	if f == nil {
		s.faults.Store(nil)
		return
	}
	s.faults.Store(&f)
}

// URL names the bucket and its key, as --bucket wants it.
func (s *Store) URL() string { return s.URLOf(Access, Secret, s.name) }

// URLOf names another bucket of the same store, or another key.
func (s *Store) URLOf(access, secret, bucket string) string {
	tail := ""
	if s.front.TLS == nil {
		tail = "?tls=off"
	}
	return fmt.Sprintf("s3://%s:%s@%s/%s%s", access, secret, s.front.Listener.Addr(), bucket, tail)
}

// Certificate is what a client must trust, as a PEM file; only a store with TLS has one.
func (s *Store) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.front.Certificate().Raw})
}

// Objects are the names of all objects in the bucket.
func (s *Store) Objects() (names []string, err error) {
	root := filepath.Join(s.gate.root, s.name)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if d.IsDir() && strings.HasPrefix(d.Name(), ".sgwtmp") { // the gateway's own
			return fs.SkipDir
		}
		if !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// File is where an object's bytes lie.
func (s *Store) File(object string) string { return filepath.Join(s.gate.root, s.name, object) }

// ServeHTTP passes requests on to the gateway, unless they are to break.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if decide := s.faults.Load(); decide != nil {
		f = (*decide)(r)
	}
	select {
	case <-time.After(f.Delay):
	case <-r.Context().Done():
		return
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
		return
	}
	if f.Cut > 0 {
		r.Body = cut{io.LimitReader(r.Body, f.Cut), r.Body}
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "gateway", r.In.Host // it stays as it was signed
		},
		Transport: s.gate.dial, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(res *http.Response) error {
			if f.Silent {
				return errBroken
			}
			if f.Hide > 0 && r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == "/"+s.name && res.StatusCode == http.StatusOK {
				return hide(res, time.Now().Add(-f.Hide))
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(w, r)
}

var (
	listed  = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)
	written = regexp.MustCompile(`<LastModified>(.*?)</LastModified>`)
)

// hide leaves out of a listing what was written after a moment.
func hide(res *http.Response, after time.Time) error {
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	body = listed.ReplaceAllFunc(body, func(one []byte) []byte {
		if at := written.FindSubmatch(one); at != nil {
			if t, err := time.Parse(time.RFC3339, string(at[1])); err == nil && t.After(after) {
				return nil
			}
		}
		return one
	})
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

var errBroken = errors.New("s3lab: broken on purpose")

// cut is a body that breaks off.
type cut struct {
	io.Reader
	io.Closer
}

func (c cut) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}

// gateway is the one that all tests of a process share: versitygw runs once in a process. While it runs, root is the
// working directory of the process: versitygw makes it so, and opens files from there.
type gateway struct {
	dir, root string
	from      string // the working directory before
	dial      *http.Transport
	stop      context.CancelFunc
	ended     chan error
	buckets   atomic.Int64
	users     int // guarded by sharing
}

var (
	sharing sync.Mutex
	shared  *gateway // nil: none runs; guarded by sharing
)

func enter(ctx context.Context) (*gateway, error) {
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil {
		g, err := run(ctx)
		if err != nil {
			return nil, err
		}
		shared = g
	}
	shared.users++
	return shared, nil
}

func (g *gateway) leave() error {
	sharing.Lock()
	defer sharing.Unlock()
	if g.users--; g.users > 0 {
		return nil
	}
	shared = nil
	g.stop()
	g.dial.CloseIdleConnections()
	err := <-g.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, os.Chdir(g.from), os.RemoveAll(g.dir))
}

func run(ctx context.Context) (g *gateway, err error) {
	g = &gateway{ended: make(chan error, 1)}
	if g.from, err = os.Getwd(); err != nil {
		return nil, err
	}
	if g.dir, err = os.MkdirTemp("", "shoal-s3-"); err != nil {
		return nil, err
	}
	g.root = filepath.Join(g.dir, "buckets")
	socket, about := filepath.Join(g.dir, "s3.sock"), filepath.Join(g.dir, "about")
	for _, dir := range []string{g.root, about} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	beside, err := meta.NewSideCar(about) // not every file system keeps attributes
	if err != nil {
		return nil, err
	}
	be, err := posix.New(g.root, beside, posix.PosixOpts{SideCarDir: about, NewDirPerm: 0o755, CopyObjectThreshold: 5 << 30}) // by default it copies nothing
	if err != nil {
		return nil, err
	}
	// A connection is for one request: the gateway answers what it could not read of one with 400 on the same connection, which the next request there would take for its own answer.
	g.dial = &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	own, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the test that begins it
	g.stop = stop
	go func() {
		g.ended <- embedgw.RunVersityGW(own, be, &embedgw.Config{
			RootUserAccess: Access, RootUserSecret: Secret, Ports: []string{socket}, Quiet: true, KeepAlive: true,
			MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10_000,
		})
	}()
	return g, g.ready(ctx, socket)
}

// ready waits until the gateway accepts connections.
func (g *gateway) ready(ctx context.Context, socket string) error {
	for {
		c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case err := <-g.ended:
			return fmt.Errorf("s3lab: the gateway ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Prefix of a request's path that names an object of the bucket.
func (s *Store) object(u *url.URL) string { return strings.TrimPrefix(u.Path, "/"+s.name+"/") }

// Puts lets a test break the requests that write objects whose names contain part, and no others.
func (s *Store) Puts(part string, f func() Fault) func(*http.Request) Fault {
	return func(r *http.Request) Fault {
		if r.Method == http.MethodPut && strings.Contains(s.object(r.URL), part) {
			return f()
		}
		return Fault{}
	}
}
