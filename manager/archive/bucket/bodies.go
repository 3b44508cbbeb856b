package bucket

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// bodies is a transport that reads no request's body any more once it has returned. That of net/http may, where the store answers before it has read all; the
// client, which sends the body again after a failure, would share it with the request before.
type bodies struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return b.next.RoundTrip(r)
	}
	of := r.WithContext(r.Context()) // a copy: a RoundTripper may not change the request
	body := &body{ReadCloser: r.Body}
	of.Body = body
	defer body.end()
	return b.next.RoundTrip(of)
}

// body is a request's body that can be read until its end.
type body struct {
	io.ReadCloser
	mu    sync.Mutex
	ended bool
}

var errEnded = errors.New("bucket: the request is over")

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errEnded
	}
	return b.ReadCloser.Read(p)
}

// end waits for a read that runs.
func (b *body) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
}
