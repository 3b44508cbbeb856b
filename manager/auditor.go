package manager

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
	"shoal/overlay"
)

// Arbiter fetches a page that is contested, from one of several places in the world. It alone is believed.
type Arbiter interface {
	Vantages() int
	// Fetch leaves the host alone for at least gap between its requests. It returns how long the host wants to be left alone after them. What is kept of a page is as peers
	// send it to a channel with these settings.
	Fetch(ctx context.Context, url string, vantage int, gap time.Duration, as channel.Settings) (channel.Page, time.Duration, error)
}

// auditor runs the trust.Machine: it takes deliveries to it as evidence, has pages audited and arbitrated, does what follows, and keeps the Machine's
// state in the database. The loop owns it. What it reads of the archive, and writes there, its clerks do beside the loop.
type auditor struct {
	*core
	keep      *keeper
	errands   *errands
	clerks    *clerks
	visits    visits // for the arbiter
	sights    sights
	sentences sentences
	courts    map[uint64]bool // cases that are on their way to a ruling
	trust     *trust.Machine
	hosts     map[channel.HostKey]*compare.Host // learnt of hosts whose pages differ at each fetch
	circle
	roll    roll
	unread  []unread // deliveries of the feed that are not judged yet, the oldest first
	read    int      // how many were taken out of unread
	late    map[channel.ID]*lateDelivery
	cursor  string     // of the feed: all before it is judged
	arbiter trust.Peer // as whom the arbiter checks, where no peer can
	counts  AuditCounts
	// Scores count; or did once, so that some peers may have no tasks.
	enforced, strict bool
	savedAt          time.Time
	reopened         time.Time     // when was looked last for cases that are open
	keptErrands      []byte        // as they were written last
	earlier          []keptErrand  // of this manager's earlier start, which who takes their hosts goes on with
	worked           time.Time     // when the days of peers' work were last counted
	taught           bool          // something was learnt of hosts since
	unsaved          []trust.Shard // that could not be written
	writing          chan struct{} // closed when what is being written beside the loop is; nil: nothing is
	written          *kept         // that, once writing is closed
	writeErr         error
	again            func(before string, e *archive.Entry) // takes a delivery in once more that a manager before this one had not judged
	first            bool                                  // no manager before this one had a Machine, and nothing is kept yet
}

// acquaintance is what the Machine was told of a member.
type acquaintance struct {
	number          trust.Peer
	account, prefix string
	view            *overlay.View // as of which
}

// unread is a delivery that is not judged yet.
type unread struct {
	before string // the feed's cursor before it
	done   bool
}

// AuditCounts are sums since the manager's start.
type AuditCounts struct {
	Deliveries, Pages int64 // judged
	Lost              int64 // deliveries that could not be
	Audits            int64 // that the Machine asked for
	Arbitrations      int64 // that were asked for
	Fetched           int64 // pages that the arbiter fetched
	Unseen            int64 // of these, of which nothing came
	Charges           int64
	Suspended         int64
	WouldSuspend      int64 // in shadow
}

// What the database keeps beside the Machine's shards.
const (
	stateTrust      = "trust-rules"  // trust.Config as JSON; there is none before the first start with a Machine
	stateTrustAt    = "trust-cursor" // up to where the feed is judged
	stateTrustHosts = "trust-hosts"
)

// Limits of what an auditor holds.
const (
	maxMet      = 1 << 16 // members, or twice those that there are
	maxAudited  = 1 << 16 // hosts whose pages' likeness is kept
	trustEvery  = 30 * time.Second
	arbiterName = "the arbiter" // no peer has this name
)

// newAuditor makes an auditor without a Machine, which comes with restore.
func newAuditor(c *core, keep *keeper, er *errands) *auditor {
	au := &auditor{core: c, keep: keep, errands: er, hosts: map[channel.HostKey]*compare.Host{}, courts: map[uint64]bool{}, circle: newCircle(), roll: newRoll(), clerks: newClerks(), late: map[channel.ID]*lateDelivery{},
		visits: visits{granted: make(chan *visit, 1)}}
	au.sentences.au = au
	au.again = func(before string, e *archive.Entry) { au.reported(before, e, 0) }
	er.answers, er.gaveUp = au.answered, au.unanswered
	return au
}

// restore makes the Machine of what the database holds. If there is nothing, this is the first start with one: the members that there are, who have
// delivered before, are vouched for.
func (au *auditor) restore(ctx context.Context, now time.Time) error {
	rules, first, fresh, err := au.rules(ctx)
	if err != nil {
		return err
	}
	var seed [32]byte
	crand.Read(seed[:])
	au.first = first
	if au.trust, err = trust.New(rules, rand.New(rand.NewChaCha8(seed))); err != nil {
		return err
	}
	for _, s := range trust.AllShards() {
		b, err := au.cfg.Store.State(ctx, s.Name())
		if err != nil {
			return fmt.Errorf("read what is known of peers: %w", err)
		}
		if err := au.trust.Restore(s, b); err != nil {
			return fmt.Errorf("read what is known of peers, %s: %w; restore the channel database from a backup", s.Name(), err)
		}
	}
	au.trust.Changed() // as stored
	au.ruled()
	if err := au.restoreHosts(ctx); err != nil {
		return err
	}
	at, err := au.cfg.Store.State(ctx, stateTrustAt)
	if err != nil {
		return fmt.Errorf("read up to where the feed was judged: %w", err)
	}
	au.cursor, au.worked = string(at), now
	if at == nil && au.tenancy == nil {
		if err := succeed(ctx, au); err != nil {
			return err
		}
	}
	if err := au.restoreErrands(ctx, now); err != nil {
		return err
	}
	au.arbiter = au.number(arbiterName)
	au.trust.JoinArbiter(au.arbiter)
	if err := errors.Join(au.agree(ctx), au.sentences.restore(ctx, now)); err != nil {
		return err
	}
	if !fresh {
		au.forget(au.trust)
		return nil
	}
	au.cursor = au.keep.cursor
	var known []archive.Deliverer
	if first {
		if known, err = au.cfg.Archive.Deliverers(ctx, ""); err != nil {
			return fmt.Errorf("read who has delivered: %w", err)
		}
		// Another manager may have begun since the rules were read, and newcomers have delivered to it. If none has by now, they are none of the known.
		if _, first, _, err = au.rules(ctx); err != nil {
			return err
		}
		au.first = first
	}
	if !first { // one more manager of a network: what the others know of its peers comes with their hosts
		return au.save(ctx, now)
	}
	for _, d := range known {
		n := trust.Peer(d.Number)
		if _, is := au.trust.Peer(n); is {
			continue
		}
		au.trust.Join(n, trust.Account(au.number(cmp.Or(d.Account, d.Peer))), trust.Prefix(n)) // where it is shows when it comes back
		au.trust.Vouch(n)
	}
	return au.save(ctx, now)
}

// ruled takes in that the rules have changed.
func (au *auditor) ruled() {
	au.enforced = au.trust.Config().Enforce
	au.strict = au.enforced || slices.ContainsFunc(au.trust.Peers(), func(p trust.Info) bool { return p.Standing >= trust.Suspended })
}

// number is the number by which captures name a peer, or by which the Machine knows an account or a prefix.
func (c *core) number(name string) trust.Peer {
	return trust.Peer(c.cfg.Archive.DelivererNumber(name))
}

// meet tells the Machine of a member, as the overlay knows it now, and returns its number.
func (au *auditor) meet(id overlay.ID) trust.Peer {
	v := au.cfg.Swarm.View()
	a, known := au.met[id]
	if known && a.view == v {
		return a.number
	}
	i := v.Index(id)
	if known && i < 0 {
		return a.number // as it was
	}
	if !known {
		if len(au.met) >= max(au.mostMet, 2*len(v.Peers)) {
			au.thin(au.trust, v)
		}
		a.number = au.number(string(id))
		au.named[a.number] = id
	}
	account, prefix := string(id), "of "+string(id) // where nothing else is known it stands for itself
	if i >= 0 {
		account, prefix = cmp.Or(v.Peers[i].Account, account), cmp.Or(v.Prefix(i), prefix)
	}
	if !known || a.account != account || a.prefix != prefix {
		as := trust.Account(au.number(account))
		au.trust.Join(a.number, as, trust.Prefix(au.cfg.Archive.PrefixNumber(prefix)))
		a.prefix = prefix
		if is, _ := au.trust.Peer(a.number); is.Account == as { // who is suspended stays with its account
			a.account = account
		}
	}
	a.view = v
	au.met[id] = a
	return a.number
}

// handed notes that a peer got a task.
func (au *auditor) handed(peer overlay.ID) { au.trust.Handed(au.meet(peer)) }

// reported takes in that a claim has ended which brought pages. before is the feed's cursor before that.
func (au *auditor) reported(before string, e *archive.Entry, pages int) {
	n := au.meet(overlay.ID(e.Peer))
	if s, ok := au.table.Find(e.Channel); ok {
		au.roll.delivered(au.table, s, n)
	}
	if au.cfg.Unjudged {
		return
	}
	if e.Event.Kind == lease.Brought {
		deliveries{au}.broughtLate(before, e)
		return
	}
	deliveries{au}.claimEnded(e.Channel)
	deliveries{au}.judge(deliveries{au}.take(before), overlay.ID(e.Peer), e.Channel, e.Event.Gen, pages)
}

var errTooMany = errors.New("manager: too many deliveries wait to be judged")

// settle notes that a delivery is judged, or cannot be.
func (au *auditor) settle(u int, err error) {
	if err != nil {
		au.log.Warn("a delivery is not judged; the next crawl of its pages is", "err", err)
		au.counts.Lost++
	}
	au.unread[u-au.read].done = true
	for len(au.unread) > 0 && au.unread[0].done {
		au.unread = au.unread[1:]
		au.read++
	}
}
