package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
)

// This file has the installed program watch a version on probation, and find out by itself what the version may say wrongly.

// lookEvery is how often a version on probation is looked at.
func lookEvery(minute time.Duration) time.Duration {
	return min(max(minute/60, 20*time.Millisecond), time.Second)
}

// watch looks at a version on probation.
type watch struct {
	l      *launcher
	p      *programs.Program
	saved  time.Time // when the probation was
	asked  time.Time // when the network was, whether it answers
	online bool
}

// look takes in what is seen now.
func (w *watch) look(ctx context.Context, now time.Time) (v release.Verdict, why string) {
	s := w.l.folder.Told(w.p.Version).Sign
	if !s.Member && now.Sub(w.asked) >= w.l.minute {
		w.asked, w.online = now, w.l.answer != nil && w.l.answer(ctx)
	}
	s.Online = w.online
	if w.saved.IsZero() {
		w.saved = now
	}
	passed := now.Sub(w.saved)
	var kept programs.State
	err := w.l.folder.Change(func(st *programs.State) error {
		if st.Trial == nil || st.Trial.Version != w.p.Version {
			return errNothing
		}
		v, why = st.Trial.Seen.Look(w.l.times, passed, s)
		if v == release.FallBack || v == release.GoOn && passed < w.l.times.Step/2 { // the one is saved with the fall, the other counts with the next look
			return errNothing
		}
		if v == release.Keep {
			st.Kept(now)
		}
		kept = *st
		return nil
	})
	switch {
	case errors.Is(err, errNothing):
		return v, why
	case err != nil:
		w.l.log.Warn("the record of updates cannot be written", "err", err)
		return release.GoOn, "" // once more at the next look
	}
	w.saved = now
	if v == release.Keep {
		w.l.folder.Tidy(&kept, nil)
	}
	return v, why
}

// errNothing says that there is nothing to save.
var errNothing = errors.New("nothing has changed")

// noProgram reports whether a start failed because the file is no program of this system. Any other reason may pass: too little memory, a disk from which
// nothing may be run.
func noProgram(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n) && slices.Contains(badProgram, n)
}

// trouble returns why no version of the program could run now: its folder cannot be written, or another program has its port. Empty: nothing stands in the
// way.
func (l *launcher) trouble() string {
	name := filepath.Join(l.data, "room.new")
	err := os.WriteFile(name, make([]byte, 64<<10), 0o600)
	_ = os.Remove(name) // where it could not be written, it may not be there
	if err != nil {
		return plain.Error(err)
	}
	for _, addr := range l.needs {
		c, err := net.Listen("tcp", addr)
		if err != nil {
			return plain.Error(err)
		}
		c.Close()
	}
	return ""
}

// needed are the addresses that a peer with those settings cannot do without. Other ports it chooses itself.
func needed(set *settings) (addrs []string) {
	if set.Port != 0 && set.Port != wire.DefaultPort {
		addrs = append(addrs, net.JoinHostPort(set.Listen, strconv.Itoa(set.Port)))
	}
	if set.Control != "" {
		addrs = append(addrs, set.Control)
	}
	return addrs
}

// asker asks whether the networks' servers answer, on the ways that the peer takes: through the admin's proxy, by TCP or QUIC.
type asker struct {
	set   settings
	p     *program
	admin *policies
	cfg   peer.Config
}

// Bounds of a question.
const (
	askWait = 5 * time.Second
	askMost = 8 // addresses
)

// answers reports whether one of the networks' managers can be reached.
func (a *asker) answers(ctx context.Context) bool {
	if a.p == nil {
		a.p = &program{set: a.set, log: slog.New(slog.DiscardHandler), limits: limit.New(a.set.Settings, "your settings", nil), meter: limit.NewMeter(nil)}
		a.admin = newPolicies(a.p)
	}
	a.admin.read(ctx, time.Now())
	a.cfg = a.set.config()
	a.p.members(&a.cfg, a.p.meter)
	addrs := managersOf(a.set.Data)
	addrs = addrs[:min(len(addrs), askMost)]
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	came := make(chan error, len(addrs))
	for _, text := range addrs {
		go func() { came <- a.one(ctx, text) }()
	}
	for range addrs {
		if <-came == nil {
			return true
		}
	}
	return false
}

// managersOf are the addresses of all networks' managers.
func managersOf(data string) (addrs []string) {
	all, _ := peer.Memberships(data) // of one that cannot be read nothing is known
	for _, at := range all {
		k, err := wire.LoadKept(at.Dir)
		if err != nil {
			continue
		}
		if d, err := member.ReadDocument(k.Document); err == nil {
			for _, m := range d.Managers {
				addrs = append(addrs, m.Addrs...)
			}
		}
		if j, err := member.ParseJoinString(k.Join); err == nil {
			addrs = append(addrs, j.Addrs...)
		}
	}
	return addrs
}

// one asks at one address.
func (a *asker) one(ctx context.Context, text string) error {
	m, err := ma.NewMultiaddr(text)
	if err != nil {
		return err
	}
	network, addr, err := manet.DialArgs(m)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = a.cfg.Names.LookupNetIP(ctx, "ip", host); err != nil {
		return err
	}
	err = errors.New("no address")
	for _, ip := range ips {
		at := net.JoinHostPort(ip.String(), port)
		switch {
		case strings.HasPrefix(network, "tcp"):
			err = a.byTCP(ctx, m, at)
		case !a.cfg.QUIC || a.p.aroundProxy(m):
			err = fmt.Errorf("this computer does not use %s", m)
		default:
			err = byQUIC(ctx, at, a.p.socket)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func (a *asker) byTCP(ctx context.Context, m ma.Multiaddr, addr string) error {
	d, err := a.cfg.Dialer(m)
	if err != nil {
		return err
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// byQUIC asks a server for a version of QUIC that there is not. Every server answers that with the versions that it knows (RFC 9000, section 6), and
// keeps nothing of it.
func byQUIC(ctx context.Context, addr string, control func(network, addr string, c syscall.RawConn) error) error {
	c, err := (&net.Dialer{Control: control}).DialContext(ctx, "udp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const least = 1200 // bytes below which a server stays silent
	ask := make([]byte, least)
	rand.Read(ask)
	ask[0] |= 0xc0                                        // a long header
	copy(ask[1:], []byte{0x1a, 0x2a, 0x3a, 0x4a, 8})      // a version that is reserved for this; the server's id
	ask[14] = 8                                           // our own id
	theirs, ours := string(ask[6:14]), string(ask[15:23]) // an answer has them the other way round
	again := time.NewTicker(time.Second)
	defer again.Stop()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	go func() { // packets get lost
		for ctx.Err() == nil {
			if _, err := c.Write(ask); err != nil {
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	b := make([]byte, least)
	for {
		n, err := c.Read(b)
		if err != nil {
			return fmt.Errorf("no answer by QUIC: %w", err)
		}
		if n >= 23 && b[0]&0x80 != 0 && string(b[1:5]) == "\x00\x00\x00\x00" && string(b[6:14]) == ours && string(b[15:23]) == theirs {
			return nil
		}
	}
}
