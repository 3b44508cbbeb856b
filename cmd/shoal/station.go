package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/order"
	"shoal/internal/headroom"
	"shoal/internal/member"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/remote"
	"shoal/manager/conduct"
	"shoal/manager/desk"
	"shoal/manager/joint"
	"shoal/overlay"
	"shoal/overlay/p2p"
	"shoal/peer/crawl"
)

// stationConfig is what a search company's side of a network is made of: manager, archive and page in one process.
type stationConfig struct {
	name        string // of the company, for volunteers
	data        string
	db          string        // URL of the server that holds the channels; empty: as the data folder remembers, else in it
	bucket      string        // URL of the bucket that holds the archive's pages; likewise
	several     bool          // other managers work on both
	tenancy     time.Duration // how long this manager's partitions stay its own without a word of it; 0: as is usual
	onlyArchive bool          // it takes no share of the hosts, and stores what peers send
	listen      []string      // multiaddrs
	announce    []string
	page        string   // address of the operator's page; empty: none
	board       string   // address of the public board; empty: none
	boardURL    string   // under which the public finds it; empty: it is not told
	names       []string // host names, beside addresses, under which the page is reached
	openView    bool     // looking at the page needs no token, if only this machine reaches it
	dialer      tcp.DialerForAddr
	joining     member.Policy // who becomes a member, and at what cost
	manager     manager.Config
	arbiter     arbiterConfig
	reach       func(origin string) error // see desk.Config
	truth       *truth                    // nil: nothing knows how fresh the copy really is
	near        *nearness                 // nil: nothing knows how far peers really are from hosts
	keep        archive.Retention
	strays      time.Duration // see archive.Config
	log         *slog.Logger
	mover       *mover // nil: the data does not move while it runs
	anew        *anew  // nil: this is the first start of the program
	unpaced     bool   // pages may come faster than gaps allow: for measurements on the pond
}

// station runs them. What it opened it closes, in the order in which data flows.
type station struct {
	cfg     stationConfig
	keys    *member.Keys
	issuer  *member.Issuer
	node    *wire.Node
	db      database
	archive *archive.Archive
	swarm   *p2p.Runner
	manager *manager.Manager
	book    atomic.Pointer[manager.Manager] // the same, for the archive's goroutines
	seen    atomic.Pointer[p2p.Runner]      // swarm, likewise
	page    net.Listener
	board   net.Listener
	token   string
	members *members
	others  *others        // nil: this is the only manager
	earlier earlier        // managers that had shared the network, where this is the only one
	joint   *joint.Running // all managers as one; nil: likewise

	offers   *offers   // between the peers' claims and the archive
	releases *releases // of the volunteers' program

	barring    sync.Mutex // one ban at a time
	publishing sync.Mutex
	issued     issued // guarded by publishing

	desk *desk.Desk
	undo []func() error
}

// openStation opens everything that can fail, so that what is wrong is said before anything runs.
func openStation(ctx context.Context, cfg stationConfig) (st *station, err error) {
	st = &station{cfg: cfg}
	defer func(opened *station) { // what is returned beside an error is nil
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}(st)
	if err := os.MkdirAll(cfg.data, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made: %w; name another with --data", err)
	}
	if st.keys, err = member.LoadOrCreate(filepath.Join(cfg.data, "keys"), time.Now()); err != nil {
		return nil, err
	}
	st.keepRoom()
	if err := errors.Join(checkSeveral(ctx, &cfg), checkPlaces(ctx, &cfg, st.keys.Network)); err != nil {
		return nil, err
	}
	if cfg.several {
		st.others = newOthers()
	}
	if st.db, err = onceFree(ctx, func() (database, error) { return openDatabase(ctx, cfg.data, cfg.db, st.keys.Network, cfg.log) }); err != nil {
		return nil, err
	}
	st.undo = append(st.undo, st.db.Close)
	if err := st.renewStolen(ctx); err != nil {
		return nil, err
	}
	if cfg.page != "" {
		if st.page, err = net.Listen("tcp", cfg.page); err != nil {
			return nil, fmt.Errorf("the operator's page cannot be served at %s: %w; choose another address with --page, or none with --page=", cfg.page, err)
		}
		page := st.page
		st.undo = append(st.undo, func() error { return ignoreClosed(page.Close()) })
	}
	if st.token, err = operatorToken(cfg.data); err != nil {
		return nil, err
	}
	if err := errors.Join(st.listenBoard(), st.openWire(ctx)); err != nil {
		return nil, err
	}
	if st.others != nil {
		if err := st.share(); err != nil {
			return nil, err
		}
		if err := st.others.shared.Full(ctx); err != nil {
			return nil, err
		}
	}
	if err := st.recallBanned(ctx); err != nil {
		return nil, err
	}
	if err := st.openArchive(ctx); err != nil {
		return nil, err
	}
	if err := st.openSwarm(ctx); err != nil {
		return nil, err
	}
	if err := st.markPond(ctx); err != nil {
		return nil, err
	}
	if err := st.openManager(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(st.shareBanned(ctx), st.shareInvites(ctx), st.shareStolen(ctx), st.recallCounted(ctx), st.keepLeast(ctx)); err != nil {
		return nil, err
	}
	if st.page != nil {
		undo, err := st.tellAddress()
		if err != nil {
			return nil, err
		}
		st.undo = append(st.undo, undo)
	}
	return st, nil
}

// lookTime is how long a manager that starts waits for a command that looks into its folder at that moment.
const lookTime = 5 * time.Second

// onceFree opens what another program may hold for a moment.
func onceFree[T any](ctx context.Context, open func() (T, error)) (T, error) {
	for end := time.Now().Add(lookTime); ; {
		opened, err := open()
		if !errors.Is(err, badgerdb.ErrLocked) && !errors.Is(err, archive.ErrLocked) || time.Now().After(end) {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return opened, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// openManager opens the manager and its desk, on all that is open.
func (st *station) openManager(ctx context.Context) (err error) {
	cfg := &st.cfg
	mc := cfg.manager
	mc.Reach = st.cfg.reach
	if mc.OnPlaced == nil && cfg.near != nil {
		mc.OnPlaced = cfg.near.placed(cfg.truth.world, func() map[string]int { return portsOf(st.swarm.View()) })
	}
	mc.Store, mc.Archive, mc.Evidence, mc.Swarm, mc.Sign = st.db, st.archive, st.archive.Evidence, st.swarm, st.node.Verifier().Signing(st.keys.Authority)
	mc.Several = st.several()
	mc.Network, mc.ArchiveID = st.keys.Network, st.node.ID().String()
	if st.others != nil {
		mc.ArchiveFor = st.archiveFor
	}
	mc.Now, mc.Log, mc.Data, mc.Disk = st.node.Now, cfg.log, cfg.data, st.room
	mc.Bar = st.sentence
	if mc.Arbiter, err = cfg.arbiter.open(cfg.data, mc.Contact); err != nil {
		return err
	}
	if st.manager, err = manager.New(ctx, mc); err != nil {
		return err
	}
	st.book.Store(st.manager)
	st.serveCourt()
	var managers func() ([]desk.Manager, desk.Figures)
	var running desk.Running = st.manager
	if st.others != nil {
		st.openJoint()
		managers, running = st.managers, st.joint
	}
	var known func() *desk.Truth
	at := ""
	if cfg.truth != nil {
		known, at = cfg.truth.now, cfg.truth.world.ServedAt().String()
	}
	var mover desk.Migrator
	if cfg.mover != nil {
		mover = cfg.mover
	}
	if st.desk, err = desk.Open(ctx, desk.Config{
		Network: st.keys.Network.String(), Store: st.db, Running: running, Archive: st.archive, Members: &membersDesk{st: st}, Releases: st.releases, Checks: st.checks, Database: st.database(), Backup: st.backup, Migrator: mover, Orders: order.Live(),
		Reach: st.cfg.reach, Now: st.node.Now, Truth: known, Pond: at, Managers: managers,
	}); err != nil {
		return err
	}
	return nil
}

// reserveFile is below the data folder: room on the disk for what is under way when another program has filled it.
const reserveFile = "reserve"

// keepRoom keeps room on the disk for the databases of the data folder.
func (st *station) keepRoom() {
	if headroom.Supported {
		k := headroom.Keep(headroom.Config{Reserve: filepath.Join(st.cfg.data, reserveFile), Enough: archive.DefaultMinFree, Log: st.cfg.log,
			Folders: []string{filepath.Join(st.cfg.data, channelsFolder), filepath.Join(st.cfg.data, "archive", "state")}})
		st.undo = append(st.undo, k.Close)
	}
}

// markPond notes in the data folder whether the manager crawls a pond. It refuses to have one crawled by a network that has channels of the Web.
func (st *station) markPond(ctx context.Context) error {
	path := filepath.Join(st.cfg.data, pondMark)
	if st.cfg.reach != nil {
		some, _, err := st.db.Search(ctx, "", "", 1)
		if err != nil {
			return err
		}
		if len(some) > 0 && st.cfg.reach(some[0].Scope.Host) != nil {
			return fmt.Errorf("the network in %s crawls the Web (%s), and --pond would add the hosts of a synthetic one to it: leave --pond out, or name another folder with --data", st.cfg.data, some[0].Scope.Host)
		}
		return member.WriteFile(path, []byte("See shoal pond --help.\n"))
	}
	st.cfg.reach = webReach
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (st *station) openWire(ctx context.Context) (err error) {
	if st.issuer, err = member.NewIssuer(st.keys.Authority, st.cfg.joining); err != nil {
		return err
	}
	if st.members, err = openMembers(st.cfg.data, st.issuer, time.Now()); err != nil {
		return err
	}
	if err := st.recallEarlier(ctx); err != nil {
		return err
	}
	st.node, err = wire.New(ctx, wire.Config{
		Key: st.keys.Node, Network: st.keys.Network, Role: member.Manager, Listen: st.cfg.listen, Announce: st.cfg.announce,
		QUIC: st.cfg.dialer == nil, Dialer: st.cfg.dialer, Version: version.String(), Log: st.cfg.log,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; shoal manager listens where --listen says, and shoal up where its data folder says: start it again", err)
	}
	if err != nil {
		return err
	}
	st.undo = append(st.undo, st.node.Close)
	if err := st.keys.Begin(time.Now()); err != nil { // only volunteers that were off for days need them
		st.cfg.log.Warn("the working keys of before cannot be kept over a restart", "err", err)
	}
	recallIssued(st)
	return st.publish(time.Now())
}

// publish makes a fresh network document, and a fresh certificate of the manager's own with it.
func (st *station) publish(now time.Time) error {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	held, _ := st.node.Document() // it may be of another manager
	now = st.issued.next(now, st.node.Now(), held.Issued)
	keepIssued(st, now)
	sealed, minSerial := st.keys.Delegations(now)
	own := member.Server{Peer: st.node.ID().String(), Addrs: bareAddrs(st.node.Addrs())}
	d := member.Document{
		Network: st.keys.Network, Delegations: sealed, MinSerial: minSerial, Managers: []member.Server{own}, Archives: []member.Server{own},
		Name: st.cfg.name, Contact: st.cfg.manager.Contact, ClaimWait: st.cfg.manager.Terms.ClaimWait, Lease: st.cfg.manager.Terms.Term,
		MinProtocol: wire.Protocol, Issued: now, NotAfter: now.Add(member.DocumentLife), Banned: st.members.told(now),
	}
	if st.others == nil {
		st.earlier.with(st.keys.Earlier(), now).addEarlier(&d, now)
	}
	st.addOthers(&d)
	doc, err := st.keys.Authority.SignDocument(d)
	if err == nil {
		err = st.node.SetIssuer(st.issuer, doc)
	}
	st.issued.signed(now, err)
	if errors.Is(err, member.ErrNotYet) {
		return fmt.Errorf("the clock of this computer is behind: it says %s, and this manager signed with its key later than that already; set the clock right, then start the manager: %w",
			now.UTC().Format(time.RFC3339), err)
	}
	return err
}

func bareAddrs(full []string) []string {
	out := make([]string, 0, len(full))
	for _, a := range full {
		if i := strings.LastIndex(a, "/p2p/"); i >= 0 {
			a = a[:i]
		}
		if len(out) < member.MaxAddrs {
			out = append(out, a)
		}
	}
	return out
}

func (st *station) openArchive(ctx context.Context) (err error) {
	cfg, err := archivePlace(&st.cfg, st.keys.Network, st.writer(), archive.Config{
		Dir: filepath.Join(st.cfg.data, "archive"), Terms: st.cfg.manager.Terms, Software: "shoal/" + version.String(),
		Operator: st.cfg.manager.Contact, Log: st.cfg.log, Clock: st.node.Now, Keep: st.cfg.keep, Strays: st.cfg.strays, Beside: st.lookAtChannels, Unjudged: st.cfg.manager.Unjudged,
		AccountOf: st.accountOf, PrefixOf: st.prefixOf, Banned: st.members.outlaws, Writer: uint32(channel.ContentDigest([]byte(st.node.ID().String()))), Fingerprint: crawl.Fingerprint, Unpaced: st.cfg.unpaced, OnWithdrawn: st.crawlFirst, OnDeed: st.deed,
		Verify: func(now time.Time, s channel.Signed) (channel.Header, error) {
			return st.node.Verifier().VerifyTask(now, s)
		},
	})
	if err != nil {
		return err
	}
	if st.archive, err = onceFree(ctx, func() (*archive.Archive, error) { return archive.Open(ctx, cfg) }); err != nil {
		return err
	}
	st.undo = append(st.undo, st.archive.Close)
	if st.cfg.bucket != "" { // it opened: from now on the folder remembers it
		if err := remote.Note(st.cfg.data, remote.BucketFile, st.cfg.bucket); err != nil {
			return err
		}
	}
	if why := st.archive.Trouble(); why != "" {
		return errors.New(why)
	}
	st.offers = newOffers(st.archive, time.Now)
	uplink.Serve(st.node, st.offers)
	return st.openReleases()
}

// writer is this start's name in the archive's log; empty: it has that for itself.
func (st *station) writer() string {
	if st.others == nil {
		return ""
	}
	return st.others.writer
}

// lookAtChannels is what `shoal archive verify` asks of the channel database.
func (st *station) lookAtChannels(ctx context.Context) ([]archive.Problem, error) {
	err := st.db.Scrub(ctx)
	if isDamaged(err) {
		return []archive.Problem{{File: "channels", What: err.Error()}}, nil
	}
	return nil, err
}

// room is why nothing new should be handed out, as far as the data folder and the databases in it know.
func (st *station) room() error {
	if err := st.db.Damaged(); err != nil {
		return err
	}
	if why := st.archive.Trouble(); why != "" {
		return errors.New(why)
	}
	return roomOn(st.cfg.data)()
}

func (st *station) openSwarm(ctx context.Context) (err error) {
	st.swarm, err = p2p.New(p2p.Config{Wire: st.node, Places: true, Offered: func(to overlay.ID, h channel.Header, said p2p.Answer) { st.offers.note(string(to), h, said) }, DHT: true, Dir: filepath.Join(st.cfg.data, "overlay"), Log: st.cfg.log})
	if err == nil {
		st.seen.Store(st.swarm)
	}
	return err
}

// joinString is what a volunteer needs.
func (st *station) joinString() string {
	return st.joinWith("")
}

// joinWith is a join string with an invite; empty: without one.
func (st *station) joinWith(invite string) string {
	j := st.node.JoinString(invite)
	j.Addrs = append(j.Addrs, st.joinAddrs()...)
	return j.String()
}

// close closes what was opened, last first.
func (st *station) close() error {
	var errs []error
	for i := len(st.undo) - 1; i >= 0; i-- {
		errs = append(errs, st.undo[i]())
	}
	st.undo = nil
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// operatorToken is the secret of the operator's page, made with the data folder.
func operatorToken(dir string) (string, error) {
	path := filepath.Join(dir, "operator.token")
	text, err := member.ReadSecret(path)
	if text = strings.TrimSpace(text); err == nil && len(text) >= 16 {
		return text, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the operator's token: %w", err)
	}
	raw := make([]byte, 16)
	rand.Read(raw)
	token := hex.EncodeToString(raw)
	if err := member.WriteFile(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("write the operator's token: %w", err)
	}
	return token, nil
}

// invite makes a join string with an invite for a number of joins.
func (st *station) invite(now time.Time, uses uint32) (string, error) {
	var id [8]byte
	rand.Read(id[:])
	text, err := st.issuer.Invite(id, uses, now.Add(inviteLife))
	if err != nil {
		return "", err
	}
	return st.joinWith(text), nil
}

const inviteLife = 7 * 24 * time.Hour

// crawlFirst has channels crawled as soon as there is room; one that is paused or gone is left as it is.
func (st *station) crawlFirst(ids []channel.ID) {
	if err := st.manager.CrawlWhole(context.Background(), ids...); err != nil {
		st.cfg.log.Debug("some channels are not crawled first after a purge", "err", err)
	}
}

// deed keeps book of what the archive tells of a member.
func (st *station) deed(peer, account string, d conduct.Deed, n int) {
	if m := st.book.Load(); m != nil { // the first peers may come before there is one
		m.Deed(peer, account, d, n)
	}
}

// prefixOf names the network of a peer's address: of its connection, if there is one that tells, else as the overlay knows it; empty: it is not known.
func (st *station) prefixOf(name string) string {
	if id, err := libp2ppeer.Decode(name); err == nil {
		if m, _ := st.node.Member(id); m.Prefix != "" {
			return m.Prefix
		}
	}
	s := st.seen.Load() // the first peers may come before there is one
	if s == nil {
		return ""
	}
	v := s.View()
	if i := v.Index(overlay.ID(name)); i >= 0 {
		return v.Prefix(i)
	}
	return ""
}

// accountOf names the account of a member that is connected; empty: it is not.
func (st *station) accountOf(name string) string {
	id, err := libp2ppeer.Decode(name)
	if err != nil {
		return ""
	}
	m, _ := st.node.Member(id)
	return m.Account
}
