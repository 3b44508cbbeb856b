package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// words are a flag's values, with commas between them or from several times; an empty one is refused, which Kong would leave out.
type words []string

// Decode implements kong.MapperValue.
func (w *words) Decode(c *kong.DecodeContext) error {
	var v string
	if err := c.Scan.PopValueInto("value", &v); err != nil {
		return err
	}
	for _, one := range kong.SplitEscaped(v, ',') {
		if one = strings.TrimSpace(one); one == "" {
			return errors.New("an empty word in its list")
		}
		*w = append(*w, one)
	}
	if v == "" {
		return errors.New("an empty word: leave the flag out where it has none")
	}
	return nil
}

type managerCmd struct {
	Data     string `help:"Data folder." default:"${data}" type:"path" placeholder:"DIR"`
	DB       string `name:"db" help:"Keep the channels on this PostgreSQL server instead of in the data folder, which remembers it: postgres://user:password@host:5432/database." env:"SHOAL_DB" placeholder:"URL"`
	Bucket   string `name:"bucket" help:"Keep the archive on servers too: its ledger in --db's, its pages in this bucket of any S3-compatible store, which the data folder remembers: s3://KEY:SECRET@host:port/bucket." env:"SHOAL_BUCKET" placeholder:"URL"`
	Several  bool   `help:"Work beside other managers on the same --db and --bucket: each has a share of the Web hosts. All of them need this flag." env:"SHOAL_SEVERAL"`
	Only     string `help:"Run a part alone: archive stores what peers send, beside the managers that run with --several on the same --db and --bucket, and takes no share of the hosts." default:"" placeholder:"archive"`
	Listen   words  `help:"Addresses to listen on for peers." default:"/ip4/0.0.0.0/tcp/${port}" placeholder:"MULTIADDR,..."`
	Announce words  `help:"Addresses under which peers reach this machine from outside, beside those found." placeholder:"MULTIADDR,..."`
	Page     string `help:"Address of the operator's page; empty: none." default:"127.0.0.1:7780" placeholder:"ADDR"`
	Strategy string `help:"Recrawl strategy: ${strategies}. By default the one last set, else icr." default:"" placeholder:"NAME"`
	discovery
	arbiterFlags
	boardFlags
	NewShare     float64       `help:"Share of room that channels never crawled get while others wait too, below 1; 0: what was last set while running, else as the strategy says." default:"0" placeholder:"SHARE"`
	KeepCaptures int           `help:"Versions of a page to keep, the newest ones; 0: all." default:"0" placeholder:"N"`
	KeepAge      time.Duration `help:"Forget versions older than this, but the last one of a page; 0: none." default:"0" placeholder:"DURATION"`
	KeepFeed     time.Duration `help:"Forget changes of the feed older than this; an indexer that was away for longer must export anew; 0: none." default:"2160h" placeholder:"DURATION"`
	Unjudged     bool          `hidden:"" help:"Judge nothing that peers deliver: for measurements on the pond."`
	Unasked      bool          `hidden:"" help:"Do not ask the pond how fresh the copy is: for measurements of what the manager takes."`
	Strays       time.Duration `help:"Remove objects from the bucket that nothing has referred to for so long; 0: 1h." default:"0" placeholder:"DURATION"`
	ClockRight   bool          `help:"This computer's clock is right now: channels that were dated more than a month ahead, while it was not, are crawled again. Once is enough."`
	PageHost     words         `help:"Host names, beside addresses, under which the page is reached." placeholder:"NAME,..."`
	LogJSON      bool          `name:"log-json" help:"Log as JSON lines."`
	JSON         bool          `name:"json" help:"Print network, join string and page as one JSON object when the manager has started."`
	Name         string        `help:"Your name, which volunteers see; default: the host of --contact." placeholder:"NAME"`
	Contact      string        `help:"Your contact URL, which Web hosts find in the User-Agent." placeholder:"URL"`
	Add          words         `help:"Sites to add as channels." placeholder:"URL,..."`
	Lease        time.Duration `help:"A peer that has shown no progress for so long loses its task to another; default 30m, 20s in the pond." placeholder:"TIME"`
	Closed       bool          `help:"Members need an invite."`
	JoinWork     uint8         `help:"Zero bits of the proof of work that joining without an invite costs: 20 take half a second of one core, each bit more doubles that; 0: none. Peers of version 0.1.0 cannot give one." default:"0" placeholder:"BITS"`
	JoinRate     int           `help:"Joins an hour from one address prefix (/24, /48), and as many at once; 0: 512 at once and 360 an hour." default:"0" placeholder:"N"`
	Pond         string        `help:"Crawl the synthetic Web served at this loopback address (see shoal pond) instead of the Web." placeholder:"ADDR"`
	Unpaced      bool          `hidden:"" help:"Take pages faster than their hosts' gaps allow: for measurements on the pond."`
	WithInput    bool          `hidden:"" help:"End when standard input does: for a program that runs managers."`
	Verbose      bool          `short:"v" help:"Log more."`
}

// A lease is a time in which a peer can crawl and send something, and no longer than a network document may say.
const (
	leastLease = time.Second
	mostLease  = 30 * 24 * time.Hour
)

func (c *managerCmd) Run(ctx context.Context, s streams) error {
	cfg, channels, err := c.station(ctx, s)
	if err != nil {
		return err
	}
	if c.WithInput {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
	}
	if !cfg.several {
		cfg.mover = newMover()
	}
	if note := besides(ctx, c.Data); note != "" {
		fmt.Fprintln(s.err, note)
	}
	return keepRunning(ctx, cfg, func(what string) { fmt.Fprintln(s.err, what) }, func(cfg stationConfig) error { return c.runOnce(ctx, s, cfg, channels) })
}

// runOnce runs the manager until it ends, or until others have taken its work over.
func (c *managerCmd) runOnce(ctx context.Context, s streams, cfg stationConfig, channels []channel.Channel) error {
	st, err := openStation(ctx, cfg)
	if err != nil {
		return err
	}
	err = c.runStation(ctx, s, st, channels)
	closed := st.close()
	switch {
	case !errors.Is(err, errMoving):
		return errors.Join(err, closed)
	case closed != nil:
		cfg.mover.failed(s, closed)
	default:
		cfg.mover.finish(ctx, s, cfg.data)
	}
	return err
}

func (c *managerCmd) runStation(ctx context.Context, s streams, st *station, channels []channel.Channel) error {
	if _, err := st.desk.AddChannels(ctx, channels); err != nil {
		return err
	}
	join := st.joinString()
	if c.Closed {
		var err error
		if join, err = st.invite(time.Now(), 1); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.err, "Network %s, data in %s\n", st.keys.Network, c.Data)
	if st.page != nil {
		fmt.Fprintf(s.err, "Page    http://%s/?token=%s\n", st.page.Addr(), st.token)
	}
	if st.board != nil {
		fmt.Fprintf(s.err, "Board   http://%s/\n", st.board.Addr())
	}
	fmt.Fprintf(s.err, "Volunteers join with: shoal-peer join %s\n", join)
	if needs := desk.Needs(c.Pond); needs != "" {
		fmt.Fprintln(s.err, needs)
	}
	if err := c.started(s, st, join); err != nil {
		return err
	}
	end := st.show(ctx, s)
	err := st.run(ctx)
	end()
	if errors.Is(err, errMoving) {
		fmt.Fprintln(s.err, "The data moves to another place: the manager pauses.")
		return err
	}
	fmt.Fprintf(s.err, "Stopped. The data is in %s.\n", c.Data)
	return err
}

// started prints what a script needs to go on from here: how volunteers join.
func (c *managerCmd) started(s streams, st *station, join string) error {
	if !c.JSON {
		_, err := fmt.Fprintln(s.out, join)
		return err
	}
	said := map[string]string{"network": st.keys.Network.String(), "join": join, "data": c.Data}
	if st.page != nil {
		said["page"] = "http://" + st.page.Addr().String()
	}
	if st.board != nil {
		said["board"] = "http://" + st.board.Addr().String()
	}
	return json.NewEncoder(s.out).Encode(said)
}

// station is the configuration that the flags ask for, with the channels to begin with.
func (c *managerCmd) station(ctx context.Context, s streams) (cfg stationConfig, channels []channel.Channel, err error) {
	if err := checkContact(c.Contact, c.Pond == ""); err != nil {
		return cfg, nil, err
	}
	if c.Data == "" {
		return cfg, nil, errNoData
	}
	if c.Only != "" && c.Only != "archive" {
		return cfg, nil, fmt.Errorf("--only %s: want archive, or leave it out to run all", c.Only)
	}
	if c.Unpaced && c.Pond == "" {
		return cfg, nil, errors.New("--unpaced needs --pond: real Web hosts are never crawled without waits")
	}
	if c.Unjudged && c.Pond == "" {
		return cfg, nil, errors.New("--unjudged needs --pond: what peers bring of real Web hosts is always judged")
	}
	if c.Unasked && c.Pond == "" {
		return cfg, nil, errors.New("--unasked needs --pond: a manager of real Web hosts has no pond to ask")
	}
	if err := errors.Join(checkStrategy(c.Strategy), c.discovery.validate(), checkNames(c.PageHost)); err != nil {
		return cfg, nil, err
	}
	joining, err := c.joining()
	if err != nil {
		return cfg, nil, err
	}
	cfg = stationConfig{data: c.Data, db: c.DB, bucket: c.Bucket, several: c.Several || c.Only != "", onlyArchive: c.Only != "", listen: c.Listen, announce: c.Announce, page: c.Page, joining: joining, log: c.logger(s), unpaced: c.Unpaced, manager: manager.Default()}
	if err := member.CheckLabel(c.Name); err != nil {
		return cfg, nil, fmt.Errorf("--name: %w", err)
	}
	cfg.name, cfg.names, cfg.manager.NewShare = c.Name, c.PageHost, c.NewShare
	useStrategy(&cfg.manager, c.Strategy)
	cfg.manager.Contact = c.Contact
	c.discovery.use(&cfg.manager)
	if cfg.arbiter, err = c.arbiterFlags.config(); err != nil {
		return cfg, nil, err
	}
	if err := c.boardFlags.use(&cfg); err != nil {
		return cfg, nil, err
	}
	cfg.keep = archive.Retention{Captures: c.KeepCaptures, Age: c.KeepAge, Feed: c.KeepFeed}
	cfg.manager.Unjudged, cfg.manager.ClockRight = c.Unjudged, c.ClockRight
	if cfg.strays = c.Strays; c.Strays < 0 {
		return cfg, nil, fmt.Errorf("--strays %v: want a time above 0, or 0 for the default", c.Strays)
	}
	if err := cfg.keep.Validate(); err != nil {
		return cfg, nil, fmt.Errorf("--keep-captures, --keep-age, --keep-feed: %w", err)
	}
	if c.Pond == "" {
		if channels, err = publicSites(c.Add); err == nil {
			err = onlyPond(c.Data)
		}
	} else {
		channels, err = c.inPond(ctx, &cfg)
	}
	if err == nil && c.Lease != 0 {
		if c.Lease < leastLease || c.Lease > mostLease {
			return cfg, nil, fmt.Errorf("--lease %v: want %v to %v: a peer shows progress each third of it", c.Lease, leastLease, mostLease)
		}
		cfg.manager.Terms.Term = c.Lease
		if err = cfg.manager.Terms.Validate(); err != nil {
			err = fmt.Errorf("--lease: %w", err)
		}
	}
	return cfg, channels, err
}

// inPond has the manager crawl a pond that is served elsewhere on this machine.
func (c *managerCmd) inPond(ctx context.Context, cfg *stationConfig) ([]channel.Channel, error) {
	world, err := pond.Connect(ctx, c.Pond)
	if err != nil {
		return nil, fmt.Errorf("--pond %s: %w; start one with shoal pond", c.Pond, err)
	}
	if err := cfg.arbiter.inPond(world, max(tcpPort(c.Listen), 1)); err != nil {
		return nil, err
	}
	pondSettings(&cfg.manager)
	cfg.reach = pondReach
	if port := tcpPort(c.Listen); port != 0 {
		cfg.dialer = pondDialer(world, port)
	}
	channels, err := desk.ParseSites(c.Add)
	if !c.Unasked {
		cfg.truth = newTruth(world, nil)
		cfg.truth.again = func(ctx context.Context) (*pond.World, error) { return pond.Connect(ctx, c.Pond) }
		cfg.near = &nearness{}
	}
	return append(channels, pondChannels(world)...), err
}

func (c *managerCmd) logger(s streams) *slog.Logger {
	opt := &slog.HandlerOptions{Level: slog.LevelWarn}
	if c.Verbose {
		opt.Level = slog.LevelInfo
	}
	if c.LogJSON {
		return slog.New(plain.CutAddresses(slog.NewJSONHandler(s.err, opt)))
	}
	return slog.New(plain.CutAddresses(slog.NewTextHandler(s.err, opt)))
}

// joining is who becomes a member, and at what cost.
func (c *managerCmd) joining() (member.Policy, error) {
	p := member.Policy{Closed: c.Closed, Work: c.JoinWork}
	if c.JoinWork > member.MaxWork {
		return p, fmt.Errorf("--join-work %d: want 0 to %d", c.JoinWork, member.MaxWork)
	}
	if c.JoinRate < 0 {
		return p, fmt.Errorf("--join-rate %d: want 1 or more joins an hour, or 0 for the default", c.JoinRate)
	}
	if c.JoinRate > 0 {
		p.Prefix = member.Rate{Burst: c.JoinRate, Every: time.Hour / time.Duration(c.JoinRate)}
	}
	return p, nil
}

// tcpPort is the port of the first listening address; 0 if it names none.
func tcpPort(listen []string) int {
	for _, l := range listen {
		a, err := ma.NewMultiaddr(l)
		if err != nil {
			continue
		}
		if v, err := a.ValueForProtocol(ma.P_TCP); err == nil {
			port, _ := strconv.Atoi(v)
			return port
		}
	}
	return 0
}

// checkNames refuses what no browser sends as the name of a host.
func checkNames(names []string) error {
	for _, n := range names {
		if u, err := url.Parse("http://" + n + "/"); err != nil || n == "" || u.Hostname() != n {
			return fmt.Errorf("--page-host %q: want a host's name without scheme and port, as shoal.example.org", n)
		}
	}
	return nil
}

// checkStrategy refuses a name that there is not; none is well.
func checkStrategy(name string) error {
	if name == "" {
		return nil
	}
	if _, err := recrawl.New(name, recrawl.Params{}); err != nil {
		return fmt.Errorf("--strategy: %w", err)
	}
	return nil
}

// useStrategy takes the one named, or the one that an operator set while the manager ran, or icr.
func useStrategy(c *manager.Config, name string) {
	c.Strategy, c.KeptStrategy = name, name == ""
	if name == "" {
		c.Strategy = "icr"
	}
}
