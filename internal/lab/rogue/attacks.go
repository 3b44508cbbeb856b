package rogue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"

	"shoal/channel/channelpb"
	"shoal/overlay/p2p/overlaypb"
)

// Attack is a way in which a volunteer harms its network.
type Attack struct {
	Name string
	What string
	RTT  time.Duration // that it claims for every host; zero: 50 microseconds, nearer than any other peer
	Busy bool          // it says that it is busy, whatever it does with the task
	// Takes says whether it accepts an offer. Nil: it accepts each, unless it is Busy.
	Takes func() bool
	// Record changes the volunteer's own record. Nil: it is left as it is.
	Record func(*overlaypb.Record)
	// Work handles one offered task. Nil: the volunteer ignores the task.
	Work func(ctx context.Context, v *Volunteer, o Offer) error
	// Beside runs as long as the volunteer does. It may be nil.
	Beside func(ctx context.Context, v *Volunteer)

	Forges bool // some of its pages never were on the Web
	Floods bool // it is after memory, disk or sockets, not after tasks
}

func (a *Attack) rtt() time.Duration {
	if a.RTT != 0 {
		return a.RTT
	}
	return 50 * time.Microsecond
}

// Attacks returns all attacks, in the order in which they are listed to people.
func Attacks() []Attack {
	return slices.Concat(greedy(), floods(), lies(), forgeries())
}

// Named returns the attack of that name.
func Named(name string) (Attack, error) {
	var names []string
	for _, a := range Attacks() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Attack{}, fmt.Errorf("rogue: no attack %q; there are %s", name, strings.Join(names, ", "))
}

// greedy returns attacks that attract tasks and waste them.
func greedy() []Attack {
	return []Attack{
		{Name: "distance", What: "says that it is near every host, and crawls as it should, slowly", Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			return v.crawl(ctx, o, nil)
		}},
		{Name: "stall", What: "is near every host, claims, then does nothing", Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			_, err := v.Claim(ctx, o)
			return err
		}},
		{Name: "swallow", What: "is near every host, accepts and never claims"},
		{Name: "boast", What: "says that it has hundreds of threads and is near every host, accepts and never claims", Record: func(r *overlaypb.Record) {
			r.Threads, r.Slots = 1<<32-1, 1<<32-1
		}},
		{Name: "steal", What: "says that it is busy, and claims all the same", Busy: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			_, err := v.Claim(ctx, o)
			return err
		}},
		{Name: "spin", What: "claims, stores an empty chunk, gives back, over and over", Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			if err != nil {
				return err
			}
			if err := r.Put(ctx, &channelpb.ChunkBody{}); err != nil {
				v.Log("empty chunk: %v", err)
			}
			return r.Release(ctx)
		}},
		{Name: "hold", What: "holds leases for ever with empty chunks and renewals", Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			for err == nil {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Second):
				}
				if err = r.Put(ctx, &channelpb.ChunkBody{}); err != nil {
					err = r.Renew(ctx)
				}
			}
			return err
		}},
		{Name: "drip", What: "holds leases with the same few pages sent again and again", Forges: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			for n := 0; err == nil; n++ {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Second):
				}
				url := o.Header.Host + "/"
				err = r.Put(ctx, &channelpb.ChunkBody{Pages: []*channelpb.Page{r.Page(url, 200, okHeader, append(forged(url), fmt.Sprint(n)...))}})
			}
			return err
		}},
	}
}

// floods returns attacks on memory, disk and sockets.
func floods() []Attack {
	const streams = 24
	return []Attack{
		{Name: "memory", What: "announces large chunks on many streams, and sends a byte of each", Floods: true, Busy: true, Beside: func(ctx context.Context, v *Volunteer) {
			for range streams {
				v.tasks.Go(func() {
					for ctx.Err() == nil {
						v.announce(ctx, "/shoal/chunk/1", 4<<20)
					}
				})
			}
		}},
		{Name: "frontier", What: "stores a million invented URLs as still to be fetched", Floods: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			for n := 0; err == nil && n < 1_000_000; {
				b := &channelpb.ChunkBody{}
				for range 20_000 {
					b.Frontier = append(b.Frontier, &channelpb.Frontier{Url: fmt.Sprintf("%s/invented/%d/%x", o.Header.Host, n, xxhash.Sum64String(fmt.Sprint(n))), Depth: 1})
					n++
				}
				err = r.Put(ctx, b)
			}
			if err == nil {
				err = r.Release(ctx)
			}
			return err
		}},
		{Name: "resume", What: "stores a page and as many invented URLs as it can, gives back, and does so again", Floods: true, Forges: true, Work: growResume},
		{Name: "budget", What: "stores far more pages than its task has", Floods: true, Forges: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			for n := 0; err == nil && n < 4000; {
				b := &channelpb.ChunkBody{}
				for range 20 {
					url := fmt.Sprintf("%s/more/%d", o.Header.Host, n)
					b.Pages = append(b.Pages, r.Page(url, 200, okHeader, append(forged(url), incompressible(n, 96<<10)...)))
					n++
				}
				err = r.Put(ctx, b)
			}
			return err
		}},
		{Name: "trickle", What: "sends chunks a byte a second, on many streams", Floods: true, Busy: true, Beside: func(ctx context.Context, v *Volunteer) {
			for range streams {
				v.tasks.Go(func() {
					for ctx.Err() == nil {
						v.trickle(ctx, "/shoal/chunk/1", 4<<20)
					}
				})
			}
		}},
		{Name: "silent", What: "opens connections and says nothing on them", Floods: true, Busy: true, Beside: func(ctx context.Context, v *Volunteer) {
			v.silence(ctx, tcpAddress(v), 200)
		}},
		{Name: "slow-login", What: "sends the operator's page forms that never end", Floods: true, Busy: true, Beside: func(ctx context.Context, v *Volunteer) { v.slowForms(ctx, 300) }},
		{Name: "identities", What: "joins over and over under new names", Floods: true, Busy: true, Beside: func(ctx context.Context, v *Volunteer) {
			for n := 0; ctx.Err() == nil; n++ {
				s := v.Scene
				s.Account = fmt.Sprintf("%s-%d", v.Account, n)
				if w, err := Join(ctx, s, Attack{}); err == nil {
					w.host.Close()
				}
				sleep(ctx, 50*time.Millisecond)
			}
		}},
	}
}

// invented are as many URLs that are not there, of the origins of which the volunteer has crawled pages.
func (v *Volunteer) invented(n int) (urls []string) {
	v.mu.Lock()
	origins := slices.Sorted(maps.Keys(v.pages))
	v.mu.Unlock()
	for i := range n {
		if len(origins) > 0 {
			urls = append(urls, fmt.Sprintf("%s/invented/%d", origins[i%len(origins)], i))
		}
	}
	return urls
}

// growResume makes what the next one who claims the task is told longer.
func growResume(ctx context.Context, v *Volunteer, o Offer) error {
	r, err := v.Claim(ctx, o)
	if err != nil {
		return err
	}
	url := o.Header.Host + "/"
	b := &channelpb.ChunkBody{Pages: []*channelpb.Page{r.Page(url, 200, okHeader, forged(url))}}
	for n := range 1500 {
		b.Frontier = append(b.Frontier, &channelpb.Frontier{Url: fmt.Sprintf("%s/%d/%s", o.Header.Host, n, incompressible(n, 1900)), Depth: 1})
	}
	for n := 0; err == nil && n < 7; n++ {
		err = r.Put(ctx, b)
		b.Pages = nil
	}
	return errors.Join(err, r.Release(ctx))
}

// lies returns attacks with reports that a check exposes.
func lies() []Attack {
	lie := func(name, what string, change func(*channelpb.Report)) Attack {
		return Attack{Name: name, What: what, Work: func(ctx context.Context, v *Volunteer, o Offer) error { return v.crawl(ctx, o, change) }}
	}
	return []Attack{
		lie("future", "reports that its crawls end in the year 9999", func(r *channelpb.Report) { r.EndedUs = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }),
		lie("gap", "reports that hosts ask for nine years between requests", func(r *channelpb.Report) { r.GapUs = (9 * 365 * 24 * time.Hour).Microseconds() }),
		lie("block", "reports that hosts refuse crawlers", func(r *channelpb.Report) {
			r.Outcome, r.Reason = hostBlocked, "\x1b[2J\x1b[31mgo away\u202e\x07"
		}),
		lie("counts", "reports two thousand million pages and invented kinds of errors", func(r *channelpb.Report) {
			r.Pages, r.New, r.BytesDown = 1<<31-1, 1<<31-1, 1<<40
			for i := range 62 {
				r.Errors = append(r.Errors, &channelpb.ErrorCount{Kind: fmt.Sprintf("kind-%02d", i), Count: 1<<31 - 1})
			}
		}),
		{Name: "links", What: "reports ten thousand invented links to the hosts that it knows", Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			return v.crawl(ctx, o, func(r *channelpb.Report) { r.Inter = v.invented(10_000) })
		}},
		lie("fails", "reports that every host is out of reach", func(r *channelpb.Report) { r.Outcome, r.Reason = 2, "connection refused" }),
	}
}

// forgeries returns attacks that put pages into the archive that were never on the Web.
func forgeries() []Attack {
	forge := func(name, what string, change func(r *Run, p *channelpb.Page)) Attack {
		return Attack{Name: name, What: what, Forges: true, Work: func(ctx context.Context, v *Volunteer, o Offer) error {
			r, err := v.Claim(ctx, o)
			if err != nil {
				return err
			}
			pages, err := r.Crawl(ctx)
			if len(pages) == 0 {
				return err
			}
			for _, p := range pages {
				change(r, p)
				v.Stats.Forged.Add(1)
			}
			return r.Put(ctx, &channelpb.ChunkBody{Pages: pages, Report: r.Report(pages)})
		}}
	}
	return []Attack{
		forge("forge", "sends bodies of its own", func(_ *Run, p *channelpb.Page) {
			p.Status, p.Header, p.Body, p.Change = 200, okHeader, forged(p.Url), pageChanged
			p.Digest = xxhash.Sum64(p.Body)
		}),
		forge("forge-digest", "sends bodies of its own under the digests that its task told it", func(r *Run, p *channelpb.Page) {
			if known, ok := r.digests[xxhash.Sum64String(p.Url)]; ok {
				p.Digest = known
			} // else the true page's, which the next crawl will compare with
			p.Status, p.Header, p.Body, p.Change = 200, okHeader, forged(p.Url), pageChanged
		}),
		forge("paint", "sends bodies of its own with headers and texts that end lines, turn text around and colour terminals", func(_ *Run, p *channelpb.Page) {
			const paint = "\x1b[2J\x1b[31m\u202eoff\u200b\x07"
			p.Status, p.Change, p.Error = 200, pageChanged, paint
			p.Header = []byte("HTTP/1.1 200 " + paint + "\r\nContent-Type: text/html;" + paint + "\r\nServer: " + paint + "\r\nETag: \"x\"\rX-Forged: 1\r\nLast-Modified: " + paint + "\r\n\r\n")
			p.Body = append(forged(p.Url), paint...)
			p.Digest = xxhash.Sum64(p.Body)
		}),
		forge("forge-validator", "sends bodies of its own with the validators of the true page", func(_ *Run, p *channelpb.Page) {
			p.Status, p.Body, p.Change = 200, forged(p.Url), pageChanged
			p.Digest = xxhash.Sum64(p.Body)
		}),
		forge("lazy", "says of every page that it is unchanged", func(r *Run, p *channelpb.Page) {
			if known, ok := r.digests[xxhash.Sum64String(p.Url)]; ok {
				p.Digest, p.Body, p.Change = known, nil, pageUnchanged
			}
		}),
		forge("gone", "says of every page that it is gone", func(_ *Run, p *channelpb.Page) {
			p.Status, p.Body, p.Header, p.Digest, p.Change = 404, nil, nil, 0, pageGone
		}),
		forge("spelling", "stores URLs that are not canonical, with bodies of its own", func(_ *Run, p *channelpb.Page) {
			p.Url = strings.Replace(p.Url, "http://", "HTTP://", 1) + "/./%7e/../x#y"
			p.Status, p.Header, p.Body, p.Change = 200, okHeader, forged(p.Url), pageNew
			p.Digest = xxhash.Sum64(p.Body)
		}),
		forge("elsewhere", "stores pages of hosts that its task does not name", func(_ *Run, p *channelpb.Page) {
			p.Url = strings.Replace(p.Url, "http://", "http://x", 1)
			p.Status, p.Header, p.Body, p.Change = 200, okHeader, forged(p.Url), pageNew
			p.Digest = xxhash.Sum64(p.Body)
		}),
	}
}

var okHeader = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n")

// crawl does a task honestly, except for what change does to the report.
func (v *Volunteer) crawl(ctx context.Context, o Offer, change func(*channelpb.Report)) error {
	r, err := v.Claim(ctx, o)
	if err != nil {
		return err
	}
	pages, err := r.Crawl(ctx)
	if err != nil && len(pages) == 0 {
		return err
	}
	report := r.Report(pages)
	if change != nil {
		change(report)
	}
	return r.Put(ctx, &channelpb.ChunkBody{Pages: pages, Report: report})
}

// announce opens a stream, announces that many bytes, sends one, and waits until the other end gives up.
func (v *Volunteer) announce(ctx context.Context, on protocol.ID, bytes uint64) {
	v.begin(ctx, on, bytes, func(s network.Stream) { _, _ = s.Read(make([]byte, 1)) }) // until it is reset
}

// trickle announces that many bytes, and sends one each second until the other end gives up.
func (v *Volunteer) trickle(ctx context.Context, on protocol.ID, bytes uint64) {
	v.begin(ctx, on, bytes, func(s network.Stream) {
		for ctx.Err() == nil {
			if _, err := s.Write([]byte{'x'}); err != nil {
				return
			}
			sleep(ctx, time.Second)
		}
	})
}

// begin opens a stream, announces that many bytes, sends one, and goes on as then says.
func (v *Volunteer) begin(ctx context.Context, on protocol.ID, bytes uint64, then func(network.Stream)) {
	s, err := v.host.Network().NewStream(ctx, v.Boss.ID)
	if err != nil {
		sleep(ctx, time.Second)
		return
	}
	defer func() { _ = s.Reset() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := multistream.SelectProtoOrFail(on, s); err != nil {
		sleep(ctx, time.Second)
		return
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, bytes), 'x')); err != nil {
		return
	}
	then(s)
}

// silence keeps n connections open, from three loopback addresses in turn, and replaces each that ends.
func (v *Volunteer) silence(ctx context.Context, to string, n int) {
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%3))}}
		v.tasks.Go(func() {
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", to)
				if err != nil {
					sleep(ctx, time.Second)
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = c.Read(make([]byte, 1<<10))
				_, _ = c.Read(make([]byte, 1))
				stop()
				c.Close()
			}
		})
	}
	<-ctx.Done()
}

// slowForms posts to the operator's page a byte a second.
func (v *Volunteer) slowForms(ctx context.Context, n int) {
	for range n {
		v.tasks.Go(func() {
			for ctx.Err() == nil {
				v.slowForm(ctx)
				sleep(ctx, time.Second)
			}
		})
	}
	<-ctx.Done()
}

func (v *Volunteer) slowForm(ctx context.Context) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", v.Page)
	if err != nil {
		return
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	fmt.Fprintf(c, "POST /login HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000000\r\n\r\ntoken=", v.Page)
	for ctx.Err() == nil {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
		sleep(ctx, time.Second)
	}
}

// tcpAddress returns the manager's address as host:port.
func tcpAddress(v *Volunteer) string {
	for _, a := range v.Boss.Addrs {
		ip, err1 := a.ValueForProtocol(4)
		port, err2 := a.ValueForProtocol(6)
		if err1 == nil && err2 == nil {
			return net.JoinHostPort(ip, port)
		}
	}
	return ""
}

// incompressible returns text that compresses badly.
func incompressible(seed, n int) []byte {
	out := make([]byte, 0, n+16)
	for x := uint64(seed)*0x9e3779b97f4a7c15 + 1; len(out) < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out = fmt.Appendf(out, "%016x", x)
	}
	return out[:n]
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
