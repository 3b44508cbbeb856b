package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client asks an interface, over HTTP or in this process.
type Client struct {
	Base  string // "http://127.0.0.1:7780"
	Token string
	HTTP  *http.Client // nil: http.DefaultClient
	Echo  io.Writer    // gets every answer that Do reads, as it came; nil: none does
}

// Quiet is the same client without Echo, for what a command must know before it asks for what it is about.
func (c *Client) Quiet() *Client {
	q := *c
	q.Echo = nil
	return &q
}

// Local is a client of a handler in this process.
func Local(h http.Handler) *Client {
	return &Client{Base: "http://localhost", HTTP: &http.Client{Transport: local{h}}}
}

// ErrAnswer wraps what the interface says is wrong.
var ErrAnswer = errors.New("refused")

// ErrAway is returned when the manager does not answer.
var ErrAway = errors.New("the manager does not answer")

// ErrToken is returned when the token does not fit, or none was shown.
var ErrToken = errors.New("the operator's token does not fit this manager: give --token or SHOAL_TOKEN, or --data with the folder that has its operator.token")

// Open asks, with in as JSON body unless it is nil or an io.Reader. The caller closes the answer's body.
func (c *Client) Open(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var send io.Reader
	switch in := in.(type) {
	case nil:
	case io.Reader:
		send = in
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		send = bytes.NewReader(b)
	}
	u := strings.TrimSuffix(c.Base, "/") + Prefix + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, send)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.Base, err)
	}
	req.Header.Set("Accept", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	r, err := hc.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	if r.StatusCode != http.StatusOK {
		defer r.Body.Close()
		if r.StatusCode == http.StatusUnauthorized {
			return nil, fmt.Errorf("%s: %w", c.Base, ErrToken)
		}
		return nil, refusal(r)
	}
	return r, nil
}

// Do asks as Open does, and reads the answer into out: a pointer, an io.Writer or nil.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	r, err := c.Open(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if c.Echo != nil {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, c.Echo), r.Body}
		defer func() { _, _ = io.Copy(io.Discard, r.Body) }() // to the last line's end
	}
	switch out := out.(type) {
	case nil:
		return nil
	case io.Writer:
		if _, err := io.Copy(out, r.Body); err != nil {
			return fmt.Errorf("the answer broke off: %w", err)
		}
		return nil
	default:
		if err := json.NewDecoder(r.Body).Decode(out); err != nil {
			return fmt.Errorf("the answer cannot be read: %w", err)
		}
		return nil
	}
}

const maxRefusal = 64 << 10 // bytes of an error's text

func refusal(r *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxRefusal))
	if err != nil {
		return err
	}
	var p Problem
	if json.Unmarshal(raw, &p) == nil && p.Error != "" {
		return fmt.Errorf("%s", p.Error)
	}
	return fmt.Errorf("%w: %s: %s", ErrAnswer, r.Status, strings.TrimSpace(string(raw)))
}

// local calls a handler without a socket.
type local struct{ h http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, w: pw, began: make(chan struct{})}
	go func() {
		defer func() {
			err := error(nil)
			if p := recover(); p != nil {
				err = fmt.Errorf("api: the answer broke off: %v", p)
			}
			w.WriteHeader(http.StatusOK) // if nothing was
			pw.CloseWithError(err)
		}()
		l.h.ServeHTTP(w, r)
	}()
	<-w.began
	return &http.Response{Status: http.StatusText(w.code), StatusCode: w.code, Header: w.header.Clone(), Body: pr, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// pipeWriter is a response whose reader waits for it.
type pipeWriter struct {
	header http.Header
	w      *io.PipeWriter
	code   int
	began  chan struct{}
}

func (p *pipeWriter) Header() http.Header { return p.header }

func (p *pipeWriter) WriteHeader(code int) {
	if p.code == 0 {
		p.code = code
		close(p.began)
	}
}

func (p *pipeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.w.Write(b)
}
