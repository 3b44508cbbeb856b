package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// This file keeps an agent for each network that the data folder is a member of, and divides the limits among them.
// docs/decisions/0041-several-networks.md says how.

// networks are those that run now.
type networks struct {
	mu     sync.Mutex
	list   []*network      // the one in the data folder itself first
	wishes map[string]wish // by folder: of networks whose agents have ended, for when they come back
}

// all returns the networks that run.
func (n *networks) all() []*network {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

func (n *networks) add(x *network) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, x)
	slices.SortFunc(n.list, func(a, b *network) int { return strings.Compare(a.at.Dir, b.at.Dir) })
}

func (n *networks) remove(x *network) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = slices.DeleteFunc(n.list, func(y *network) bool { return x == y })
	if x.hasLeft() {
		delete(n.wishes, x.at.Dir)
		return
	}
	if n.wishes == nil {
		n.wishes = map[string]wish{}
	}
	n.wishes[x.at.Dir] = x.wish()
}

// wished returns what the volunteer wants of a network that comes back.
func (n *networks) wished(dir string) wish {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wishes[dir]
}

func (n *networks) allWishes() map[string]wish {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.wishes)
}

// away notes a network that cannot be crawled for now, so that orders to all reach it when it comes back.
func (n *networks) away(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wishes == nil {
		n.wishes = map[string]wish{}
	}
	if _, ok := n.wishes[dir]; !ok {
		n.wishes[dir] = wish{}
	}
}

// order notes an order to all networks for those that have no agent now. A pause without an end has the zero time.
func (n *networks) order(order string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for dir, w := range n.wishes {
		if !slices.ContainsFunc(n.list, func(x *network) bool { return x.at.Dir == dir }) {
			w.order, w.until = order, until
			n.wishes[dir] = w
		}
	}
}

// brokenWait is how long a network rests whose agent has ended with an error, while others go on.
const brokenWait = time.Minute

// ended is a network whose agent has ended.
type ended struct {
	n   *network
	err error
}

// crawl runs an agent for each network until ctx ends, or the last network has been left. aside outlives ctx while they leave.
func (p *program) crawl(ctx, aside context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &keeper{p: p, done: make(chan ended)}
	k.start = func(n *network) { k.done <- ended{n, n.run(ctx, aside)} }
	err := k.look()
	p.ready()
	retry := time.NewTicker(brokenWait)
	defer retry.Stop()
	for err == nil && k.running > 0 {
		select {
		case e := <-k.done:
			err = k.ended(e)
		case <-p.joined:
			err = k.look()
		case <-retry.C:
			err = k.look()
		case <-ctx.Done():
			return k.rest()
		}
	}
	cancel()
	return errors.Join(err, k.rest())
}

// keeper starts agents and waits for them. Owned by crawl.
type keeper struct {
	p       *program
	start   func(n *network)
	done    chan ended
	running int
}

// look starts the agents of memberships that have none.
func (k *keeper) look() error {
	p := k.p
	all, err := peer.Memberships(p.set.Data)
	switch {
	case err == nil:
		p.notes.clear(matter("networks"))
	case k.running > 0 || len(all) > 0: // the others go on
		if p.notes.set(matter("networks"), words.T("note.network.one", plain.Error(err))) {
			p.log.Error("a network is not crawled for", "err", err)
		}
		err = nil
	default:
		return err
	}
	var fresh []*network
	for i, m := range all {
		if slices.ContainsFunc(p.nets.all(), func(n *network) bool { return n.at.Dir == m.Dir }) {
			continue
		}
		n, broken := p.newNetwork(m, i)
		if broken != nil {
			p.nets.away(m.Dir)
			err = errors.Join(err, k.broken(m, broken, len(all) > 1))
			continue
		}
		p.nets.add(n)
		fresh = append(fresh, n)
	}
	p.divide() // before they begin with what they may not finish
	for _, n := range fresh {
		k.running++
		go k.start(n)
	}
	if k.running == 0 && err == nil {
		err = errors.New("no network can be crawled for; see the log")
	}
	return err
}

// ended takes a network out whose agent has ended. It returns an error that ends the program.
func (k *keeper) ended(e ended) error {
	k.running--
	k.p.nets.remove(e.n)
	k.p.divide()
	if e.err == nil {
		return nil
	}
	return k.broken(e.n.at, e.err, k.running > 0)
}

// broken notes why a network is not crawled for, and lets the others go on. Without others it returns the error.
func (k *keeper) broken(m peer.Membership, err error, others bool) error {
	if !others || errors.Is(err, peer.ErrLocked) {
		return err
	}
	name := m.Network.String()[:shortName]
	if k.p.notes.set(matter("network", name), words.T("note.network.broken", plain.Error(err))) {
		k.p.log.Error("a network is not crawled for now", "network", name, "err", err)
	}
	return nil
}

// rest waits for all agents that still run.
func (k *keeper) rest() (err error) {
	for ; k.running > 0; k.running-- {
		e := <-k.done
		k.p.nets.remove(e.n)
		err = errors.Join(err, e.err)
	}
	return err
}

// weights returns each network's weight by the settings; 1 where they name none.
func weights(set *settings, list []*network) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = weightOf(set.Shares, n.at.Network.String())
	}
	return out
}

// maxWeight bounds a share's weight.
const maxWeight = 1000

// weightOf finds a network in a list such as ["bq3xkd7n2mwa=2"].
func weightOf(shares []string, id string) int {
	for _, s := range shares {
		if name, w, err := parseShare(s); err == nil && strings.HasPrefix(id, name) {
			return w
		}
	}
	return 1
}

// leastName is the fewest characters of a network's name that a setting may have: others must not come to be called so.
const leastName = 8

// parseShare reads one entry of the setting network_shares.
func parseShare(s string) (name string, weight int, err error) {
	name, text, ok := strings.Cut(s, "=")
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	weight, bad := strconv.Atoi(text)
	switch {
	case !ok || bad != nil || weight < 1 || weight > maxWeight:
		return "", 0, fmt.Errorf("want a network and its weight of 1 to %d, such as bq3xkd7n2mwa=2", maxWeight)
	case len(name) < leastName:
		return "", 0, fmt.Errorf("want at least %d characters of the network's name, as shoal-peer status shows it", leastName)
	}
	return name, weight, nil
}

// divide gives each network its part of threads, queue and disk. Rates are divided each second by shareRates, since they depend on who works.
func (p *program) divide() {
	set, list := p.now(), p.nets.all()
	if len(list) == 0 {
		return
	}
	w := weights(set, list)
	of := 0
	for _, x := range w {
		of += x
	}
	threads, queue, disk := limit.Shares(set.Threads, w), limit.Shares(set.Queue, w), limit.Shares(set.DiskMiB, w)
	cfg := set.config()
	if p.world != nil && set.MinGapMs == defaults().MinGapMs {
		cfg.MinGap = pond.Gap
	}
	for i, n := range list {
		t := &part{w[i], of, threads[i], queue[i], max(int64(disk[i])<<20, 1)}
		n.part.Store(t)
		n.agent.Tune(peer.Tuning{MinGap: cfg.MinGap, Checkpoint: cfg.Checkpoint, Grace: cfg.Grace, Disk: t.disk})
	}
	p.spread()
}

// spread sets how many sites each network may fetch from: together they never run more tasks than the volunteer allows.
func (p *program) spread() {
	p.spreading.Lock()
	defer p.spreading.Unlock()
	list := p.nets.all()
	parts, running := make([]int, len(list)), make([]int, len(list))
	for i, n := range list {
		t := n.part.Load()
		n.allow(min(n.allowed, t.threads), t.queue)
		parts[i], running[i] = t.threads, n.agent.Running()
	}
	for i, threads := range allowed(parts, running) {
		list[i].allow(threads, list[i].part.Load().queue)
	}
}

// allowed returns how many tasks each network may run. Where one still runs more than its part, since that has shrunk, others wait with theirs.
func allowed(parts, running []int) []int {
	out, over := slices.Clone(parts), 0
	for i, part := range parts {
		over += max(running[i]-part, 0)
	}
	for i := range out {
		less := min(over, max(out[i]-running[i], 0))
		out[i] -= less
		over -= less
	}
	return out
}

// allow sets the agent's threads and queue. The caller holds p.spreading.
func (n *network) allow(threads, queue int) {
	if threads == n.allowed && queue == n.queued {
		return
	}
	n.allowed, n.queued = threads, queue
	if err := n.agent.SetLimits(threads, queue); err != nil {
		n.p.log.Warn("threads and queue stay as they were", "err", err)
	}
}

// shareRates divides the rates in force among the networks that have work now, by their weights. One that rests may use its own share, and
// leaves the others what it does not use: the meter of all keeps the whole.
func (p *program) shareRates(f *limit.Force) {
	p.meter.SetRates(f.DownKiBPerS.Value, f.UpKiBPerS.Value)
	list := p.nets.all()
	busy := make([]bool, len(list))
	of := 0
	for i, n := range list {
		if busy[i] = n.agent.Running() > 0; busy[i] {
			of += n.part.Load().weight
		}
	}
	for i, n := range list {
		t := n.part.Load()
		all := of
		if !busy[i] {
			all += t.weight
		}
		rate := func(whole int, own int64) int {
			if all > t.weight && whole > 0 {
				whole = max(whole*t.weight/all, 1)
			}
			if own > 0 && (whole == 0 || int(own) < whole) {
				whole = int(own)
			}
			return whole
		}
		if len(list) == 1 {
			all = t.weight
		}
		n.meter.SetRates(rate(f.DownKiBPerS.Value, n.down.Load()), rate(f.UpKiBPerS.Value, n.up.Load()))
	}
}

// Parts of a day and a month after each of which unused shares of a budget are lent.
const (
	daySteps   = 24
	monthSteps = 30
)

// overShares returns for each network why it must fetch nothing although the computer may: it has used its share of a budget up, and the others have left
// nothing of theirs so far. It is called by govern alone.
func (p *program) overShares(list []*network, f *limit.Force, now time.Time) []words.Text {
	out := make([]words.Text, len(list))
	if len(list) < 2 {
		return out
	}
	who, weights, days, months := make([]string, len(list)), make([]int, len(list)), make([]int64, len(list)), make([]int64, len(list))
	for i, n := range list {
		who[i], weights[i] = n.at.Dir, n.part.Load().weight
		days[i], months[i] = n.usage.Used(now)
	}
	day, month := list[0].usage.Times(now)
	for _, b := range []struct {
		cap   limit.Cap
		times limit.Term
		steps int
		used  []int64
		lent  *limit.Lending
		key   string
	}{{f.MonthMiB, month, monthSteps, months, &p.lentMonth, "why.share.month"}, {f.DayMiB, day, daySteps, days, &p.lentDay, "why.share.day"}} {
		if b.cap.Value == 0 {
			continue
		}
		budget := limit.Budget{Whole: int64(b.cap.Value) << 20, Begins: b.times.Begins, Ends: b.times.Ends, Steps: b.steps}
		for i, until := range b.lent.Waits(budget, now, who, weights, b.used) {
			if out[i].Key == "" && !until.IsZero() {
				out[i] = words.T("until", words.T("source", words.T(b.key), sourceText(b.cap.Source)), words.Moment(until, now))
			}
		}
	}
	for i, n := range list {
		if n.part.Load().threads == 0 {
			out[i] = words.T("why.thread")
		}
	}
	return out
}

// errWhich lists networks where one must be named.
type errWhich struct {
	what string // that was asked for
	have []string
}

func (e *errWhich) Error() string {
	return fmt.Sprintf("%s; this computer is a member of: %s", e.what, strings.Join(e.have, ", "))
}

// find returns the network that a person names: by the beginning of its name, or as its company calls itself.
func (p *program) find(name string) (*network, error) {
	list := p.nets.all()
	if name == "" && len(list) == 1 {
		return list[0], nil
	}
	var all []peer.Membership
	for _, n := range list {
		m := n.at
		m.Company = cmp.Or(n.agent.Company(), m.Company)
		all = append(all, m)
	}
	m, err := pick(all, name, "name one")
	if err != nil {
		return nil, err
	}
	return list[slices.IndexFunc(list, func(n *network) bool { return n.at.Dir == m.Dir })], nil
}

// share saves a network's weight in the settings.
func (s *station) share(w http.ResponseWriter, p *program, args map[string]string) {
	n, err := p.find(args["network"])
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	entry := n.short() + "=" + strings.TrimSpace(args["weight"])
	if _, _, err := parseShare(entry); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("%w: a share of %q: want a weight of 1 to %d", errSettings, args["weight"], maxWeight))
		return
	}
	set := s.settings()
	if from := set.from["network_shares"]; from != "" && from != inFile(s.file) {
		fail(w, http.StatusConflict, fmt.Errorf("the shares are set by %s, which the settings file cannot change", strings.TrimPrefix(from, "your settings, ")))
		return
	}
	list := slices.DeleteFunc(slices.Clone(set.Shares), func(x string) bool {
		name, _, err := parseShare(x)
		return err == nil && strings.HasPrefix(n.at.Network.String(), name)
	})
	if err := s.change(changes{"network_shares": append(list, entry)}); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
