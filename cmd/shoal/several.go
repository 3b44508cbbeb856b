package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/postgres"
	"shoal/internal/member"
	"shoal/internal/version"
	"shoal/manager"
	"shoal/manager/archive/remote"
	"shoal/manager/desk"
)

// others is what a manager among several knows of the other ones.
type others struct {
	shared  *postgres.Several
	writer  string // of this start, in the archive's log
	started time.Time

	changed chan struct{}           // the network document must be made anew
	known   []byte                  // of which the network document was made; owned by who calls Seen
	about   []about                 // of all managers; guarded by station.publishing
	has     map[string]int          // how many partitions each has; likewise
	owner   [channel.Parts]string   // who has each; likewise
	stolen  uint64                  // up to this serial working keys are in others' hands; likewise
	gone    map[string]gone         // managers that were here, by their peer ids; likewise
	ended   map[string]time.Time    // the start of managers that were asked to end, by their peer ids; likewise
	free    int                     // partitions that no manager has; likewise
	idle    time.Time               // since when there are some; likewise
	counted map[string]desk.Figures // what managers had counted when they were heard of last, by their peer ids; likewise
	keys    []keyUsed               // of managers that are here, or were of late; likewise
}

// gone is a manager that was here and is not any more.
type gone struct {
	machine string
	at      time.Time
}

// goneTold is for how long operators are told of it.
const goneTold = 24 * time.Hour

// depart notes who of the managers that were here is not any more, and who is here again. The caller holds station.publishing.
func (o *others) depart(now []about, me string, at time.Time) {
	if o.gone == nil {
		o.gone = map[string]gone{}
	}
	for i := range o.about {
		a := &o.about[i]
		if a.Peer == me {
			continue
		}
		if !a.Started.Equal(o.ended[a.Peer]) {
			o.gone[a.Peer] = gone{a.Name, at}
		}
		if a.Figures != nil {
			o.count(a.Peer, *a.Figures)
		}
	}
	for i := range now {
		delete(o.gone, now[i].Peer)
	}
	maps.DeleteFunc(o.ended, func(peer string, start time.Time) bool { // what was gone before, or is another start, is told no more
		return !slices.ContainsFunc(now, (&about{Peer: peer, Started: start}).sameStart)
	})
	for p, g := range o.gone {
		if at.Sub(g.at) > goneTold {
			delete(o.gone, p)
		}
	}
}

// count notes what a manager has counted. One that is started again goes on with that.
func (o *others) count(peer string, f desk.Figures) {
	if o.counted == nil {
		o.counted = map[string]desk.Figures{}
	}
	o.counted[peer] = f
}

// elsewhere is what those managers have counted that do not tell it themselves: they are not here any more, whether they were asked to end or not, or have just begun.
func (o *others) elsewhere(me string) (sum desk.Figures) {
	for peer, f := range o.counted {
		if peer != me && !slices.ContainsFunc(o.about, func(a about) bool { return a.Peer == peer && a.Figures != nil }) {
			sum.Count(&f)
		}
	}
	return sum
}

// recallCounted reads what managers have counted that are not here.
func (st *station) recallCounted(ctx context.Context) error {
	if st.others == nil {
		return nil
	}
	by, err := manager.CountedBy(ctx, st.others.shared)
	if err != nil {
		return err
	}
	st.publishing.Lock()
	defer st.publishing.Unlock()
	for peer, o := range by {
		st.others.count(peer, desk.FiguresOf(o))
	}
	return nil
}

// end notes that a manager was asked to end: that it is gone is then no news to its operator.
func (o *others) end(a about) {
	if o.ended == nil {
		o.ended = map[string]time.Time{}
	}
	o.ended[a.Peer] = a.Started
	delete(o.gone, a.Peer)
}

// freeTold is for how long partitions may have no manager, as while they move, before operators are told.
const freeTold = 15 * time.Second

// noteFree notes how many partitions no manager has.
func (o *others) noteFree(free int, now time.Time) {
	if o.free = free; free == 0 {
		o.idle = time.Time{}
	} else if o.idle.IsZero() {
		o.idle = now
	}
}

// unowned tells of hosts that no manager has.
func (o *others) unowned(now time.Time) []desk.Finding {
	if o.idle.IsZero() || now.Sub(o.idle) < freeTold {
		return nil
	}
	return []desk.Finding{{Level: desk.Error, What: fmt.Sprintf("Nothing is crawled of %d of 256 parts of the Web hosts, which no manager has had since %s.", o.free, o.idle.UTC().Format("2006-01-02 15:04:05 UTC")),
		Mend: "Start a manager with --several: an archive alone (--only archive) takes none. If one runs (shoal managers), look into its log, and restart it."}}
}

// missing tells of the managers that are not here any more, and were not asked to end.
func (o *others) missing() (out []desk.Finding) {
	for _, p := range slices.Sorted(maps.Keys(o.gone)) {
		out = append(out, desk.Finding{Level: desk.Warning, What: fmt.Sprintf("The manager %s on %s has been gone since %s; the others have its share of the hosts.", p, o.gone[p].machine, o.gone[p].at.UTC().Format("2006-01-02 15:04:05 UTC")),
			Mend: "It was not asked to end: see whether that machine runs and reaches the database, and start the manager again."})
	}
	return out
}

// about is what managers tell each other of themselves.
type about struct {
	Peer        string   `json:"peer"`
	Name        string   `json:"name"` // of the machine
	Addrs       []string `json:"addrs"`
	Page        string   `json:"page,omitempty"`
	Version     string   `json:"version"`
	Delegations [][]byte `json:"delegations"`
	Leaving     bool     `json:"leaving,omitempty"`
	ArchiveOnly bool     `json:"archive_only,omitempty"`

	Started time.Time `json:"started"`
	Stolen  uint64    `json:"stolen,omitempty"` // up to this serial working keys are in others' hands

	Figures *desk.Figures `json:"figures,omitempty"` // nil: the manager has just begun
}

// sameStart reports whether b is of the same manager, and of the same start of it.
func (a *about) sameStart(b about) bool { return a.Peer == b.Peer && a.Started.Equal(b.Started) }

// checkSeveral refuses what cannot be shared.
func checkSeveral(ctx context.Context, cfg *stationConfig) error {
	if !cfg.several {
		return nil
	}
	for _, file := range []struct{ name, flag, given string }{{remote.DatabaseFile, "--db", cfg.db}, {remote.BucketFile, "--bucket", cfg.bucket}} {
		noted, err := remote.Noted(cfg.data, file.name)
		if err != nil {
			return err
		}
		if noted == "" && file.given == "" {
			return fmt.Errorf("--several needs %s: managers share what is on servers; name a PostgreSQL server with --db and a bucket with --bucket, or move there with shoal migrate", file.flag)
		}
	}
	return ctx.Err()
}

// share makes the station one of several.
func (st *station) share() error {
	db, ok := st.db.(server)
	if !ok {
		return errors.New("--several needs the channels on a server: move them with shoal migrate")
	}
	shared := db.AsOne(postgres.SeveralConfig{Node: st.node.ID().String(), Writer: st.others.writer, Term: st.cfg.tenancy, Feed: manager.FeedName, Shared: manager.SharedState, Heir: !st.cfg.onlyArchive, Summed: manager.SummedState,
		Most: member.MaxDelegations})
	st.others.shared = shared
	st.db = sharedServer{shared}
	return nil
}

// sharedServer is a channel database on a server, as one of several managers has it.
type sharedServer struct{ *postgres.Several }

// CopyTo implements database.
func (s sharedServer) CopyTo(ctx context.Context, dir string) error {
	return server{s.DB}.CopyTo(ctx, dir)
}

// Scrub implements database.
func (s sharedServer) Scrub(ctx context.Context) error { return server{s.DB}.Scrub(ctx) }

// Damaged implements database.
func (s sharedServer) Damaged() error { return server{s.DB}.Damaged() }

// Broken implements database.
func (s sharedServer) Broken() bool { return server{s.DB}.Broken() }

// hostName is the name of this machine, for people.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

func newOthers() *others {
	raw := make([]byte, 12)
	rand.Read(raw)
	return &others{writer: hex.EncodeToString(raw), started: time.Now(), changed: make(chan struct{}, 1)}
}

// several is what the manager needs to be one of several; nil: it is the only one.
func (st *station) several() *manager.Several {
	if st.others == nil {
		return nil
	}
	return &manager.Several{
		Shared: st.others.shared, ShutOut: st.archive.Others.ShutOut, Earliest: st.archive.Others.Earliest, About: st.aboutMe, Seen: st.seenOthers, Heard: st.heard,
		Idle: st.cfg.onlyArchive,
	}
}

// aboutMe is what the other managers are told.
func (st *station) aboutMe() []byte {
	sealed, _ := st.keys.Delegations(time.Now())
	a := about{Peer: st.node.ID().String(), Name: hostName(), Addrs: bareAddrs(st.node.Addrs()), Version: version.String(), Delegations: sealed, ArchiveOnly: st.cfg.onlyArchive, Started: st.others.started, Stolen: st.keys.Stolen}
	if st.page != nil {
		a.Page = "http://" + st.page.Addr().String()
	}
	if m := st.book.Load(); m != nil {
		f := desk.FiguresOf(m.Overview())
		a.Figures = &f
	}
	b, err := json.Marshal(a)
	if err != nil {
		st.cfg.log.Error("the other managers are not told of this one", "err", err)
		return nil
	}
	return b
}

// seenOthers has the network document made anew when managers come or go.
func (st *station) seenOthers(t channel.Tenure) {
	var all []byte
	var list []about
	has, count, named := map[string]int{}, map[channel.Epoch]int{}, map[channel.Epoch]string{}
	var owner [channel.Parts]string
	for _, x := range t.Tenants {
		named[x.ID] = x.Node
	}
	for p, id := range t.Owner {
		count[id]++
		owner[p] = named[id]
	}
	for _, x := range t.Tenants {
		var a about
		if len(x.About) == 0 || json.Unmarshal(x.About, &a) != nil {
			continue // it has just begun
		}
		a.Leaving = x.Leaving && !a.ArchiveOnly
		has[a.Peer] += count[x.ID]
		list = append(list, a)
		a.Figures = nil // they change all the time
		b, err := json.Marshal(a)
		if err != nil {
			continue
		}
		all = append(all, b...)
	}
	st.publishing.Lock()
	st.others.depart(list, st.node.ID().String(), time.Now())
	st.others.noteFree(count[0], time.Now())
	st.others.about, st.others.has, st.others.owner = list, has, owner
	for i := range list {
		st.others.stolen = max(st.others.stolen, list[i].Stolen)
	}
	st.publishing.Unlock()
	if bytes.Equal(all, st.others.known) {
		return
	}
	st.others.known = all
	select {
	case st.others.changed <- struct{}{}:
	default:
	}
}

// managers are those that share the network, this one first, and what those have counted that are gone.
func (st *station) managers() ([]desk.Manager, desk.Figures) {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	me := st.node.ID().String()
	var out []desk.Manager
	for _, a := range st.others.about {
		m := desk.Manager{Peer: a.Peer, Machine: a.Name, Page: a.Page, Version: a.Version, Partitions: st.others.has[a.Peer], Here: a.Peer == me, Leaving: a.Leaving, ArchiveOnly: a.ArchiveOnly, Since: a.Started, Addrs: a.Addrs}
		if a.Figures != nil {
			m.Figures = *a.Figures
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b desk.Manager) int {
		if a.Here != b.Here {
			return cmp.Compare(b2i(b.Here), b2i(a.Here))
		}
		return cmp.Compare(a.Peer, b.Peer)
	})
	return out, st.others.elsewhere(me)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// addOthers completes a network document by the other managers. All managers make the same one.
func (st *station) addOthers(d *member.Document) {
	if st.others == nil {
		return
	}
	d.MinSerial = 0 // a manager that is away comes back with the key that it had
	for _, a := range st.others.about {
		if a.Peer == st.node.ID().String() {
			continue
		}
		s := member.Server{Peer: a.Peer, Addrs: a.Addrs}
		if len(d.Archives) >= member.MaxServers {
			continue
		}
		if d.Archives = append(d.Archives, s); !a.ArchiveOnly {
			d.Managers = append(d.Managers, s)
		}
	}
	if len(d.Managers) > 1 && st.cfg.onlyArchive { // until it knows a manager, it stands in for one
		d.Managers = d.Managers[1:]
	}
	for _, k := range st.others.keys { // the newest first
		if d.Issued.Sub(k.Last) < keyKept && len(d.Delegations) < member.MaxDelegations && !slices.ContainsFunc(d.Delegations, func(have []byte) bool { return bytes.Equal(have, k.Delegation) }) {
			d.Delegations = append(d.Delegations, k.Delegation)
		}
	}
	byPeer := func(a, b member.Server) int { return cmp.Compare(a.Peer, b.Peer) }
	slices.SortFunc(d.Managers, byPeer)
	slices.SortFunc(d.Archives, byPeer)
	if st.others.outdated() == nil && st.others.stolen > 0 { // every manager that is here has a newer key
		d.MinSerial = st.others.stolen + 1
		d.Delegations = slices.DeleteFunc(d.Delegations, func(sealed []byte) bool {
			read, err := member.ReadDelegation(sealed)
			return err != nil || read.Serial < d.MinSerial
		})
	}
	slices.SortFunc(d.Delegations, bytes.Compare)
}

// keyUsed is a working key's delegation. What it has signed is good for a while after its manager has gone.
type keyUsed struct {
	Delegation []byte    `json:"delegation"`
	Last       time.Time `json:"last"` // when its manager was seen
}

// keyKept is for how long the network document names it: certificates are renewed within their life. The database keeps it for longer (keyGood).
const keyKept = 2 * member.CertificateLife

// keepKeys notes which working keys are in use, in the database, so that they stay good when their managers have gone.
func (st *station) keepKeys(ctx context.Context, now time.Time) error {
	if st.others == nil {
		return nil
	}
	b, err := st.others.shared.State(ctx, manager.StateKeys)
	if err != nil {
		return err
	}
	var before, all []keyUsed
	if b != nil {
		if err := json.Unmarshal(b, &before); err != nil {
			return fmt.Errorf("the managers' working keys, in the database: %w", err)
		}
	}
	st.publishing.Lock()
	for _, a := range st.others.about {
		for _, d := range a.Delegations {
			all = append(all, keyUsed{d, now})
		}
	}
	st.publishing.Unlock()
	for _, k := range before {
		if now.Sub(k.Last) < keyGood && !slices.ContainsFunc(all, func(have keyUsed) bool { return bytes.Equal(have.Delegation, k.Delegation) }) {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b keyUsed) int { return b.Last.Compare(a.Last) })
	all = all[:min(len(all), keysKept)]
	st.publishing.Lock()
	st.others.keys = all
	st.publishing.Unlock()
	if b, err = json.Marshal(all); err != nil {
		return err
	}
	return st.others.shared.PutState(ctx, st.manager.Epoch(), manager.StateKeys, b)
}

// joinAddrs are addresses of the other managers for a join string, so that who has it gets in while this one is away.
func (st *station) joinAddrs() (addrs []string) {
	if st.others == nil {
		return nil
	}
	st.publishing.Lock()
	defer st.publishing.Unlock()
	for _, a := range st.others.about {
		if a.Peer == st.node.ID().String() {
			continue
		}
		for _, x := range a.Addrs {
			if strings.Contains(x, "/tcp/") && len(addrs) < mostJoinAddrs {
				addrs = append(addrs, x+"/p2p/"+a.Peer)
				break // one each: join strings are pasted
			}
		}
	}
	return addrs
}

const mostJoinAddrs = 4

// archiveFor is the archive that a channel's tasks name: this manager, or one of those that run an archive alone, each for as many channels.
func (st *station) archiveFor(id channel.ID) string {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	all := []string{st.node.ID().String()}
	for i := range st.others.about {
		if a := &st.others.about[i]; a.ArchiveOnly {
			all = append(all, a.Peer)
		}
	}
	return all[uint64(id)%uint64(len(all))]
}
