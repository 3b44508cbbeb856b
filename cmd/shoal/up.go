package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/desk"
)

type upCmd struct {
	URLs     []string      `arg:"" optional:"" name:"url" help:"Sites to crawl instead of the pond: a whole host, or one directory of it."`
	Peers    *int          `help:"Peers to run; default 8 in the pond, 1 with URLs." placeholder:"N"`
	For      time.Duration `help:"End after this time, as 60s or 2h." placeholder:"TIME"`
	Data     string        `help:"Data folder. Starting again with it goes on from there." default:"${data}" type:"path" placeholder:"DIR"`
	DB       string        `name:"db" help:"Keep the channels on this PostgreSQL server instead of in the data folder, which remembers it: postgres://user:password@host:5432/database." env:"SHOAL_DB" placeholder:"URL"`
	Bucket   string        `name:"bucket" help:"Keep the archive on servers too: its ledger in --db's, its pages in this bucket of any S3-compatible store, which the data folder remembers: s3://KEY:SECRET@host:port/bucket." env:"SHOAL_BUCKET" placeholder:"URL"`
	Cluster  int           `help:"Run so many managers that share the work, each as a process, on a PostgreSQL that is started for them and a small object store, or on --db and --bucket: for a look." default:"0" placeholder:"N"`
	Strategy string        `help:"Recrawl strategy: ${strategies}. By default the one last set, else icr." default:"" placeholder:"NAME"`
	JSON     bool          `name:"json" help:"Print one JSON object as the last line."`
	Name     string        `help:"Your name, which volunteers see; default: the host of --contact." placeholder:"NAME"`
	Contact  string        `help:"Your contact URL, which Web hosts find in the User-Agent. Needed to crawl the Web." placeholder:"URL"`
	Seed     uint64        `help:"Seed of the pond; default 1. The same seed is the same Web." placeholder:"N"`
	Hosts    *int          `help:"Hosts of the pond; default 200." placeholder:"N"`
	Pages    *int          `help:"Pages of the pond, on all hosts together; default 20,000." placeholder:"N"`
	discovery
	arbiterFlags
	boardFlags
	Page    string `help:"Address of the manager's page; empty: none." default:"127.0.0.1:7780" placeholder:"ADDR"`
	Verbose bool   `short:"v" help:"Log what happens to standard error."`

	ClockRight bool `help:"This computer's clock is right now: channels that were dated more than a month ahead, while it was not, are crawled again. Once is enough."`
}

// maxPeers bounds the peers of one process.
const maxPeers = 500

var errNoData = errors.New("--data: name a folder; an empty word is none")

func (c *upCmd) validate() error {
	if n := c.peers(); n < 1 || n > maxPeers {
		return fmt.Errorf("--peers %d: want 1 to %d", n, maxPeers)
	}
	if c.Hosts != nil && *c.Hosts < 1 {
		return fmt.Errorf("--hosts %d: want 1 or more", *c.Hosts)
	}
	if c.Pages != nil && *c.Pages < 1 {
		return fmt.Errorf("--pages %d: want 1 or more", *c.Pages)
	}
	if c.For < 0 {
		return fmt.Errorf("--for %v: want a time to run, such as 60s", c.For)
	}
	if c.Data == "" {
		return errNoData
	}
	if err := errors.Join(checkStrategy(c.Strategy), c.discovery.validate(), c.checkCluster()); err != nil {
		return err
	}
	if len(c.URLs) > 0 && (c.Seed != 0 || c.Hosts != nil || c.Pages != nil) {
		return errors.New("--seed, --hosts and --pages describe the pond, but URLs are to be crawled: leave one or the other away")
	}
	if err := member.CheckLabel(c.Name); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	return checkContact(c.Contact, len(c.URLs) > 0)
}

// peers is how many run: as asked, or as fits what is crawled.
func (c *upCmd) peers() int {
	switch {
	case c.Peers != nil:
		return *c.Peers
	case len(c.URLs) > 0:
		return 1
	}
	return 8
}

// checkContact refuses a crawl of the Web without a contact for its hosts.
func checkContact(contact string, public bool) error {
	if contact == "" {
		if public {
			return errors.New("crawling the Web needs --contact URL: a page or a mailto: address that the owners of Web hosts can turn to")
		}
		return nil
	}
	u, err := url.Parse(contact)
	if err != nil || (u.Scheme != "mailto" && u.Scheme != "http" && u.Scheme != "https") || (u.Scheme == "mailto" && u.Opaque == "") || (u.Scheme != "mailto" && u.Host == "") {
		return fmt.Errorf("--contact %q is no URL that people can turn to: write https://example.org/crawler or mailto:crawler@example.org", contact)
	}
	return nil
}

func (c *upCmd) Run(ctx context.Context, s streams) (err error) {
	channels, err := publicSites(c.URLs)
	if err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	if c.Cluster > 0 {
		return c.runCluster(ctx, s)
	}
	began := time.Now()
	cfg, err := c.station(s, began)
	if err != nil {
		return err
	}
	w := &swimmers{n: c.peers(), dir: filepath.Join(cfg.data, "peers"), log: cfg.log}
	near := &nearness{}
	if len(c.URLs) == 0 {
		if w.pond, err = c.openPond(cfg.data); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ignoreClosed(w.pond.Close())) }()
		if err := c.inPond(&cfg, w.pond.World()); err != nil {
			return err
		}
		cfg.manager.OnPlaced, cfg.near = near.placed(w.pond.World(), w.places), near
		channels = pondChannels(w.pond.World())
		cfg.truth = newTruth(w.pond.World(), w.pond.Served)
	}
	st, err := openStation(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	w.own = func(id string) { // the operator's own need no probation
		if err := st.manager.Vouch(ctx, id); err != nil {
			cfg.log.Warn("a peer of this program is a newcomer", "peer", id, "err", err)
		}
	}
	if w.pond == nil || st.desk.Overview().Channels == 0 { // a host of the pond that was removed stays so
		if _, err := st.desk.AddChannels(ctx, channels); err != nil {
			return err
		}
	}
	c.greet(s, st, w)
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(c.For))
		defer cancel()
	}
	ctx, over := context.WithCancel(ctx) // whatever it was that ended it
	defer over()
	first, before := watchFirst(ctx, st, began), st.desk.Overview()
	err = c.swim(ctx, s, st, w)
	over()

	sum := summarise(before, st.desk.Overview())
	sum.FirstPageS, sum.Peers = first(), c.peers()
	near.fill(&sum)
	if w.pond != nil {
		sum.MaxInFlight = w.pond.Stats().MaxInFlight
	}
	near.tell(s.err)
	fmt.Fprintf(s.err, "Stopped. The data is in %s; start again to go on from there.\n", cfg.data)
	if c.JSON {
		err = errors.Join(err, json.NewEncoder(s.out).Encode(sum))
	}
	return err
}

// The folders in which up keeps the manager's data.
const (
	upWeb  = "up-web"
	upPond = "up-pond"

	upCluster = "up-cluster" // of several managers
)

// station is the configuration of the network's manager.
func (c *upCmd) station(s streams, began time.Time) (cfg stationConfig, err error) {
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = slog.New(plain.CutAddresses(slog.NewTextHandler(s.err, nil)))
	}
	data := filepath.Join(c.Data, upWeb)
	if len(c.URLs) == 0 {
		data = filepath.Join(c.Data, upPond)
	}
	port, err := keptPort(data)
	if err != nil {
		return cfg, err
	}
	cfg = stationConfig{name: c.Name, data: data, db: c.DB, bucket: c.Bucket, listen: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, page: c.Page, openView: true, log: log, manager: manager.Default()}
	useStrategy(&cfg.manager, c.Strategy)
	cfg.manager.ClockRight = c.ClockRight
	cfg.manager.Contact = c.Contact
	c.discovery.use(&cfg.manager)
	if c.For > 0 {
		cfg.manager.Until = began.Add(c.For)
	}
	if err := c.boardFlags.use(&cfg); err != nil {
		return cfg, err
	}
	cfg.arbiter, err = c.arbiterFlags.config()
	return cfg, err
}

// swim runs station, peers and pond until ctx ends, and shows what happens.
func (c *upCmd) swim(ctx context.Context, s streams, st *station, w *swimmers) error {
	defer st.show(ctx, s)()
	if w.pond != nil {
		pctx, drain := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.pond.Run(pctx); err != nil {
				w.log.Error("pond", "err", err)
			}
		}()
		defer func() { drain(); <-done }()
	}
	return runAll(ctx, st, w)
}

func (c *upCmd) greet(s streams, st *station, w *swimmers) {
	what := strings.Join(c.URLs, ", ")
	if w.pond != nil {
		cfg := w.pond.World().Config()
		what = fmt.Sprintf("the pond, a synthetic Web of %d hosts and %d pages on loopback", cfg.Hosts, cfg.Pages)
	}
	fmt.Fprintf(s.err, "Shoal crawls %s with %s.\n", what, plain.Count(w.n, "peer"))
	if st.page != nil {
		fmt.Fprintf(s.err, "  page      http://%s/?token=%s\n", st.page.Addr(), st.token)
	}
	if st.board != nil {
		fmt.Fprintf(s.err, "  board     http://%s/\n", st.board.Addr())
	}
	fmt.Fprintf(s.err, "  data      %s\n  end with  ctrl-C\n", st.cfg.data)
}

// runAll runs station and peers until ctx ends; the peers leave while the station still takes what they have.
func runAll(ctx context.Context, st *station, w *swimmers) error {
	sctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	station := make(chan error, 1)
	go func() { station <- st.run(sctx) }()
	pctx, leave := context.WithCancel(ctx)
	defer leave()
	peers := make(chan error, 1)
	go func() { peers <- w.run(pctx, st.joinString()) }()
	var err error
	select {
	case err = <-station: // it failed, so no manager is left to report to
		leave()
		return errors.Join(err, <-peers)
	case err = <-peers:
		st.manager.Settle(settleTime)
	}
	stop(context.Canceled)
	return errors.Join(err, <-station)
}

const settleTime = time.Second // for the last reports to be taken in

// publicSites makes a channel of each URL, before anything is opened.
func publicSites(urls []string) ([]channel.Channel, error) {
	chs, err := desk.ParseSites(urls)
	for i := range chs {
		err = errors.Join(err, webReach(chs[i].Scope.Host))
	}
	return chs, err
}

// watchFirst notes when the first page is in the archive.
func watchFirst(ctx context.Context, st *station, began time.Time) func() float64 {
	at, before := make(chan float64, 1), st.archive.Stats().Pages
	go func() {
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				at <- -1
				return
			case <-t.C:
				if st.archive.Stats().Pages > before {
					at <- time.Since(began).Seconds()
					return
				}
			}
		}
	}()
	return func() float64 { return <-at }
}
