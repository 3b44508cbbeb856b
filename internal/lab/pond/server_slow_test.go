package pond

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// lingering is a listener whose connections stand still once they have sent a whole response, until over is closed. So does a server whose turn has ended
// on a busy computer: the client has everything, and the server's own write has not returned.
type lingering struct {
	net.Listener
	over chan struct{}
}

func (l lingering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &lingeringConn{Conn: c, over: l.over}, err
}

type lingeringConn struct {
	net.Conn
	over chan struct{}
	sent []byte
}

func (c *lingeringConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent = append(c.sent, b[:n]...)
	if res, failed := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.sent)), nil); failed == nil {
		if _, failed = io.Copy(io.Discard, res.Body); failed == nil {
			<-c.over
		}
	}
	return n, err
}

// TestAnsweredIsOver asks for one page after another, each on a connection of its own, and has the server's writes return late: no request is beside another.
func TestAnsweredIsOver(t *testing.T) {
	w, err := NewWorld(Config{Seed: 5, Hosts: 1, Sizes: []int{70}, Pages: 70, MaxHost: 70, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ln := lingering{s.ln, make(chan struct{})}
	hs := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() { defer close(served); _ = hs.Serve(ln) }()
	defer func() { close(ln.over); hs.Close(); <-served }()
	large := 0
	for page := range 20 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", w.Path(0, page), w.Hosts()[0].Name)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("page %d: %s, %v", page, res.Status, err)
		}
		large = max(large, len(body))
	}
	if st := s.Stats(); st.MaxInFlight != 1 || st.Violated != 0 {
		t.Errorf("%d requests in flight, %d violations, of a client that asks for one page after the other", st.MaxInFlight, st.Violated)
	}
	if large < 8<<10 { // smaller ones fit into the server's buffers
		t.Errorf("the largest page has %d bytes", large)
	}
}
