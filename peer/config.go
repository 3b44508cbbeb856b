package peer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"shoal/overlay"
	"shoal/peer/crawl"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// ErrConfig is returned for settings that make no sense.
var ErrConfig = errors.New("peer: bad configuration")

// ErrLocked is returned when another agent runs in the same folder.
var ErrLocked = errors.New("peer: another peer runs in this folder")

// Config is one agent. Zero fields mean what their comments say.
type Config struct {
	Dir     string // folder of its identity, membership, tasks and spool; must be its own
	Join    string // join string; empty: the network that Dir belongs to
	Account string // whose computer it is, as its user says; only looked at when joining

	Listen   []string          // multiaddrs; empty: it only dials out
	Announce []string          // multiaddrs told to others beside those, for port forwarding
	QUIC     bool              // listen and dial QUIC too
	Dialer   tcp.DialerForAddr // for injected latency; nil: the system's
	// Every socket between members: its options, and who accounts for what it carries; as in wire.Config. nil: nothing.
	Socket func(network, address string, c syscall.RawConn) error
	Wrap   func(net.Conn) net.Conn
	Count  func(received, sent int)
	Names  *net.Resolver           // for members' names; nil: the system's
	Bar    func(ma.Multiaddr) bool // whether an address must not be connected to now; nil: all may
	DHT    bool                    // kad-dht helps to find members

	Threads    int           // channels crawled at the same time; 0: 5
	Queue      int           // tasks that wait; 0: 5; negative: none
	MinGap     time.Duration // wait between two requests to a host at least; 0: 1 s
	Checkpoint time.Duration // longest time that a fetched page stays here only; 0: 10 minutes; a third of the lease term where that is less
	Grace      time.Duration // time to hand over when told to leave; 0: 10 s
	Disk       int64         // bytes that all crawls together may keep in Dir until the archive has them; 0: 320 MiB each
	Unpaced    bool          // no politeness waits: for measuring against one's own pond

	Home    *limit.Home                      // told of addresses that no crawl may reach; nil: one that only the default Dial asks
	Turns   *crawl.Turns                     // of all crawls on this computer, whatever the network; nil: none waits for another one
	Dial    limit.DialFunc                   // how hosts are dialled; nil: a limit.Guard, public addresses only
	Roots   *x509.CertPool                   // who vouches for hosts; nil: the system's
	Overlay overlay.Config                   // zero: overlay.Default
	Refuse  func(host string) error          // a volunteer's own rules: why a host ("https://example.org") is not crawled here; nil: all are
	OnVisit func(host string, v crawl.Visit) // called after each response, from several goroutines; nil: nothing

	Version string
	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: a registry of its own
}

// Default is a volunteer's computer.
func Default() Config {
	return Config{
		Listen: []string{"/ip4/0.0.0.0/tcp/7785", "/ip6/::/tcp/7785"}, QUIC: true, DHT: true,
		Threads: 5, Queue: 5, MinGap: crawl.DefaultMinGap, Checkpoint: crawl.Checkpoint, Grace: 10 * time.Second, Version: "devel",
	}
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("%w: no data folder", ErrConfig)
	case c.MinGap < 0 || c.Checkpoint < 0 || c.Grace < 0:
		return fmt.Errorf("%w: a time is negative", ErrConfig)
	case c.Disk < 0:
		return fmt.Errorf("%w: %d bytes of disk", ErrConfig, c.Disk)
	}
	if err := c.queue().Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

func (c *Config) queue() queue.Config {
	q := queue.Default()
	if c.Threads != 0 {
		q.Threads = c.Threads
	}
	if c.Queue != 0 {
		q.Queue = max(c.Queue, 0)
	}
	return q
}

func (c *Config) grace() time.Duration {
	if c.Grace == 0 {
		return 10 * time.Second
	}
	return c.Grace
}
