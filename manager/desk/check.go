package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/archive"
)

// Finding is one thing that was checked.
type Finding struct {
	Level string `json:"level"` // ok, warning or error
	What  string `json:"what"`
	Mend  string `json:"mend,omitempty"` // what to do
	// Waits says that this waits for the operator's decision, and will not mend by itself. A banner shows it whatever else is wrong.
	Waits bool `json:"waits,omitempty"`
}

// The levels of a Finding.
const (
	OK      = "ok"
	Warning = "warning"
	Error   = "error"
)

const failureTold = 24 * time.Hour // after the last one

const lagWarn = 10 * time.Minute // text extraction behind that much

// Check tells what is wrong, and how to mend it.
func (d *Desk) Check(ctx context.Context) []Finding {
	var out []Finding
	if d.cfg.Checks != nil {
		out = d.cfg.Checks(ctx)
	}
	if f, away := d.cfg.checkDatabase(ctx); away { // what else is asked would wait for it
		return append(out, f)
	}
	if d.m != nil {
		out = append(out, d.checkManager(ctx)...)
		out = append(append(out, checkMembers(d)...), checkTrust(ctx, d)...)
	}
	return append(out, d.checkChannels(ctx)...)
}

// reachFor is how long the database may take to give a sign of life.
const reachFor = 2 * time.Second

// checkDatabase says that the database is away, if so.
func (c *Config) checkDatabase(ctx context.Context) (Finding, bool) {
	if c.Database == nil {
		return Finding{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, reachFor)
	defer cancel()
	err := c.Database(ctx)
	if err == nil {
		return Finding{}, false
	}
	return Finding{Level: Error, What: "The database does not answer: " + plain.Error(err) + ".", Mend: "Meanwhile nothing new is handed out, and peers keep their pages. All goes on by itself when it is back."}, true
}

// banner keeps what the last check found that is not well.
type banner struct {
	mu    sync.Mutex
	found []Finding
	next  time.Time
}

const bannerFor = 3 * time.Second // for which a banner is shown before all is checked again

// Banner is what every page begins with: what Check finds wrong, errors first; or that all is well. It is some seconds old.
func (d *Desk) Banner(ctx context.Context) []Finding {
	d.banner.mu.Lock()
	defer d.banner.mu.Unlock()
	now := time.Now()
	if now.Before(d.banner.next) {
		return d.banner.found
	}
	var bad, well []Finding
	for _, f := range d.Check(ctx) {
		if f.Level == OK {
			well = append(well, f)
		} else {
			bad = append(bad, f)
		}
	}
	pressing(bad, still(ctx, d)...)
	if len(bad) == 0 {
		bad = []Finding{{Level: OK, What: fmt.Sprintf("All is well: %d things were checked.", len(well))}}
	}
	d.banner.found, d.banner.next = bad, time.Now().Add(bannerFor)
	return bad
}

// still is what keeps everything from being crawled.
func still(ctx context.Context, d *Desk) (out []Finding) {
	if d.m == nil {
		return nil
	}
	o := shown(d.m, d.cfg.Members)
	ofAll(d, &o)
	if f, is := standstill(&o, o.Channels > 0 || anyChannel(ctx, d.store.List)); is {
		out = append(out, f)
	}
	if f, is := allFail(d.tallies.known()); is { // a check has just counted
		out = append(out, f)
	}
	return out
}

// pressing orders findings for those who see only the first: errors, then those that keep everything from being crawled, then what waits for a decision, then
// other warnings.
func pressing(found []Finding, still ...Finding) {
	rank := func(f Finding) int {
		switch {
		case f.Level == Error:
			return 0
		case slices.Contains(still, f):
			return 1
		case f.Waits:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
}

// stores tells whether the archive stores what peers bring, and how far behind its text is.
func stores(a *archive.Stats) Finding {
	switch {
	case a.Failing:
		return Finding{Level: Error, What: "The archive cannot store what peers bring: " + a.LastFailure + ".", Mend: "Peers keep their pages and send them again: it goes on by itself when this is mended."}
	case a.WriteWait() > archive.SlowWrite:
		return Finding{Level: Error, What: fmt.Sprintf("A write of what peers bring goes on since %s (%s): a disk, a database or a bucket is slow, or does not answer.", a.Writing.UTC().Format("15:04:05 UTC"), plain.Span(a.WriteWait())),
			Mend: "Look at the archive's disk, or at PostgreSQL and the bucket, and at the network between. Peers keep their pages and send them again."}
	case a.Unsettled != "":
		return Finding{Level: Error, What: "What suspended peers delivered is not all withdrawn, or not all given back to those who were pardoned: " + a.Unsettled + ".", Mend: "It is tried again each minute. Look at the archive's disk, or at the database; shoal archive verify names what is damaged."}
	case a.Failures > 0 && time.Since(a.LastFailed) < failureTold:
		return Finding{Level: Warning, What: fmt.Sprintf("The archive failed to write %s, last at %s, and has written since: %s.", plain.Count(int(a.Failures), "time"), a.LastFailed.UTC().Format("15:04:05 UTC"), a.LastFailure), Mend: "Nothing that was acknowledged is lost. If it happens again, look at the disk, the database and the bucket."}
	case a.TextDelay > lagWarn:
		return Finding{Level: Warning, What: fmt.Sprintf("Text extraction is %s behind (%s).", plain.Span(a.TextDelay), plain.Count(int(a.TextLag), "change")), Mend: "It catches up by itself when less is crawled; a faster processor helps."}
	default:
		return Finding{Level: OK, What: fmt.Sprintf("archive: %s of pages stored ever, %s; %s without text yet", plain.Count(int(a.Pages), "version"), plain.Count(a.Files, "WARC file"), plain.Count(int(a.TextLag), "change"))}
	}
}

// checkChannels tells of channels that an operator should look at.
func (d *Desk) checkChannels(ctx context.Context) (out []Finding) {
	t, looked, err := d.tally(ctx)
	if err != nil {
		return []Finding{{Level: Error, What: "The channels cannot be read: " + plain.Error(err), Mend: "Look into the manager's log; restore a backup if this lasts."}}
	}
	return tallied(t, looked)
}

// tallied says what a tally shows. looked is of how many channels it is so far; 0: of all.
func tallied(t Tally, looked int) (out []Finding) {
	of := ""
	if looked > 0 {
		of = fmt.Sprintf(", among the first %s; the others are still being looked at", plain.Count(looked, "channel"))
	} else if f, is := allFail(t); is {
		out = append(out, f)
	}
	for _, x := range []struct{ state, what, mend string }{
		{GivenUp, "given up after too many failures", "shoal channel list --state 'given up' says why; shoal channel resume tries again."},
		{Failing, "failing: tried again by and by", "shoal channel list --state failing says why."},
		{Blocked, "on blocked hosts, and not crawled", "shoal host list --blocked says why; shoal host unblock lifts it."},
	} {
		if n := t[x.state]; n > 0 {
			verb := "are"
			if n == 1 {
				verb = "is"
			}
			out = append(out, Finding{Level: Warning, What: fmt.Sprintf("%s %s %s%s.", plain.Count(n, "channel"), verb, x.what, of), Mend: x.mend})
		}
	}
	return out
}

// allFail says that nothing can be crawled of what is not paused, if so. That is most likely no fault of the sites.
func allFail(t Tally) (Finding, bool) {
	bad, words := 0, []string{}
	for _, state := range []string{Failing, GivenUp, Blocked} {
		if n := t[state]; n > 0 {
			bad, words = bad+n, append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	if bad == 0 || t[New]+t[Active] > 0 {
		return Finding{}, false
	}
	which := "No channel can be crawled"
	if t[Paused] > 0 {
		which = "No channel that is not paused can be crawled"
	}
	mend := "If they fail alike, look at the way from the peers to the Internet, and at their name servers: shoal channel list --sort state says why."
	if bad == t[Blocked] {
		mend = "Add others, or let hosts be crawled again: shoal host unblock."
	}
	return Finding{Level: Warning, What: which + ": " + strings.Join(words, ", ") + ".", Mend: mend}, true
}

// checkManager tells what is wrong with what the manager does.
func (d *Desk) checkManager(ctx context.Context) (out []Finding) {
	o := shown(d.m, d.cfg.Members)
	ofAll(d, &o)
	for _, n := range o.Notices {
		level := Warning
		if slices.Contains(o.Blocking, n) {
			level = Error
		}
		out = append(out, Finding{Level: level, What: n, Mend: ""})
	}
	if err := d.m.Alive(ctx); err != nil {
		out = append(out, Finding{Level: Error, What: "The manager's loop does not answer.", Mend: "Look into its log; restart it if this lasts."})
	}
	if f, still := standstill(&o, o.Channels > 0 || anyChannel(ctx, d.store.List)); still {
		out = append(out, f)
	} else {
		out = append(out, Finding{Level: OK, What: fmt.Sprintf("%s, %s, %s out", plain.Count(o.Channels, "channel"), plain.Count(o.Peers, "peer"), plain.Count(o.Out, "task")), Mend: ""})
		if _, why := holdsBack(&o); why != "" {
			out = append(out, Finding{Level: OK, What: why})
		}
	}
	out = append(out, stores(&o.Archive))
	if f, counted := believed(o.Now, &o.Archive); counted {
		out = append(out, f)
	}
	return out
}

// standstill says why nothing at all is crawled, if so. channels: there are some, whatever the manager has counted.
func standstill(o *manager.Overview, channels bool) (Finding, bool) {
	switch {
	case o.Channels == 0 && !channels:
		return Finding{Level: Warning, What: "There are no channels.", Mend: "Add some: shoal channel add https://example.org/"}, true
	case o.Peers == 0 && o.Accepted > 0:
		return Finding{Level: Warning, What: "No peer is there now: nothing is crawled.", Mend: "Give volunteers the join string: shoal peer invite"}, true
	case o.Peers == 0:
		return Finding{Level: Warning, What: "No peer has joined: nothing is crawled.", Mend: "Give volunteers the join string: shoal peer invite"}, true
	case stands(o):
		return Finding{Level: Warning, What: fmt.Sprintf("%s due, and none can go.", dueWords(o.Due)), Mend: "Their hosts may be blocked or want waits, or all peers be full: shoal channel list --sort state, shoal peer list."}, true
	}
	return Finding{}, false
}

// anyChannel reports whether the database holds a channel. The manager's own count is up to a moment older than what was just added.
func anyChannel(ctx context.Context, list func(ctx context.Context, after channel.ID, n int) ([]channel.Channel, error)) bool {
	chs, err := list(ctx, 0, batch)
	return err == nil && slices.ContainsFunc(chs, func(ch channel.Channel) bool { return ch.State != channel.Removed })
}

// believed says how far the stored pages are believed, as they were counted last; false: there were none.
func believed(now time.Time, a *archive.Stats) (Finding, bool) {
	if a.Counted.IsZero() && a.Pages > 0 {
		return Finding{Level: OK, What: "the stored pages are not counted yet: the first count since the start goes on"}, true
	}
	all := a.Verified + a.Provisional + a.Withdrawn
	if all == 0 {
		return Finding{}, false
	}
	text := fmt.Sprintf("%s stored when they were counted, %s ago", plain.Count(int(all), "page"), plain.Span(now.Sub(a.Counted)))
	if a.Verified == 0 && a.Withdrawn == 0 {
		return Finding{Level: OK, What: text + ", all provisional: a page is verified when another account, in another network, sees it alike"}, true
	}
	return Finding{Level: OK, What: fmt.Sprintf("%s: %d verified, %d provisional, %d withdrawn", text, a.Verified, a.Provisional, a.Withdrawn)}, true
}

const standsFor = 5 // samples of the history

// stands reports whether for a while nothing was out although something is due.
func stands(o *manager.Overview) bool {
	n := len(o.History)
	if o.Due == 0 || o.Out > 0 || n < standsFor {
		return false
	}
	return !slices.ContainsFunc(o.History[n-standsFor:], func(p manager.Point) bool { return p.Out > 0 })
}

func dueWords(n int) string {
	if n == 1 {
		return "A channel is"
	}
	return fmt.Sprintf("%d channels are", n)
}
