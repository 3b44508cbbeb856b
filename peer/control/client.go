package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

// maxAnswer is the most bytes of an answer that the client reads.
const maxAnswer = 16 << 20

// ErrNoAgent is returned by a client when no peer runs in a folder.
var ErrNoAgent = errors.New("peer: no peer runs")

func noAgent(dir, why string) error {
	return fmt.Errorf("%w in %s%s; start one with `shoal-peer run`, or name another folder with --data", ErrNoAgent, dir, why)
}

// Refusal is an answer that says what is wrong, for programs. Its text is for people.
type Refusal struct {
	Status int
	Text   string
	Body   []byte // JSON, where the answer was that
}

func (r *Refusal) Error() string { return r.Text }

// Client talks to the peer of a folder.
type Client struct {
	dir string
	at  access
}

// NewClient finds the peer of a folder.
func NewClient(dir string) (*Client, error) {
	b, err := os.ReadFile(accessFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noAgent(dir, "")
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("peer: the peer in %s is another user's; only that user may ask it: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("peer: control API: %w", err)
	}
	c := &Client{dir: dir}
	if err := json.Unmarshal(b, &c.at); err != nil {
		return nil, fmt.Errorf("peer: control API: %s: %w", accessFile(dir), err)
	}
	return c, nil
}

func (c *Client) ask(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.at.Addr+path, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.at.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, noAgent(c.dir, fmt.Sprintf(" (its last one cannot be reached: %v)", err))
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp.Body, nil
}

func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	out := &Refusal{Status: resp.StatusCode, Text: strings.TrimSpace(string(b))}
	var told struct{ Error string }
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && json.Unmarshal(b, &told) == nil {
		out.Text, out.Body = told.Error, b
	}
	return out
}

// Get decodes what a path of the API answers into v; a *json.RawMessage takes it as it is.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	return c.Call(ctx, http.MethodGet, path, nil, v)
}

// Call sends a body, which may be nil, and decodes the answer into out, which may be nil.
func (c *Client) Call(ctx context.Context, method, path string, body, out any) error {
	r, err := c.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer r.Close()
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(out)
}

// Text returns what a path of the API answers as text.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	r, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxAnswer))
	return string(b), err
}

// Status decodes the peer's status into v.
func (c *Client) Status(ctx context.Context, v any) error { return c.Get(ctx, "/v1/status", v) }

// Do gives an order.
func (c *Client) Do(ctx context.Context, order string, args map[string]string) error {
	return c.Call(ctx, http.MethodPost, "/v1/do/"+order, args, nil)
}

// Link returns a URL that opens the page, once and within OnceFor.
func (c *Client) Link(ctx context.Context) (string, error) {
	var a struct{ Once string }
	if err := c.Call(ctx, http.MethodPost, pathOnce, nil, &a); err != nil {
		return "", err
	}
	return "http://" + c.at.Addr + pathEnter + "?once=" + a.Once, nil
}
