package judge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Look reads what is new, and judges it. An error says that it could not: the manager may be down, and the next Look goes on from there.
func (j *Judge) Look(ctx context.Context) error {
	// The log first: it is bounded, and goes on while the manager does not answer. And last: it has what the others already show.
	if err := j.readPond(ctx); err != nil {
		return err
	}
	rows, err := j.rows(ctx)
	if err != nil {
		return err
	}
	if _, err := j.listed(ctx); err != nil {
		return err
	}
	if err := j.strategy(ctx); err != nil {
		return err
	}
	if err := j.readFeed(ctx); err != nil {
		return err
	}
	if err := j.readPond(ctx); err != nil {
		return err
	}
	j.count(rows)
	return nil
}

// strategy judges by which strategy the manager goes.
func (j *Judge) strategy(ctx context.Context) error {
	if j.cfg.Strategy == "" {
		return nil
	}
	var now struct {
		Name string `json:"name"`
	}
	if err := j.manager(ctx, "/strategy", nil, &now); err != nil {
		return err
	}
	if may := j.mayChoose(); !slices.Contains(may, now.Name) {
		j.breach(Forgotten, "the manager goes by strategy %s; an operator chose %s last", now.Name, strings.Join(may, " or "))
		j.choices = append(j.choices, choice{name: now.Name, done: true}) // it is told once
	}
	return nil
}

// Know learns the numbers by which captures and changes name the peers that lie, if these have delivered something. Call it before that is taken back.
func (j *Judge) Know(ctx context.Context) error {
	all, err := j.listed(ctx)
	if err != nil || all {
		return err
	}
	for peer, number := range j.liars {
		if number != "" {
			continue
		}
		of, err := j.index(ctx, url.Values{"deliverer": {peer}, "limit": {"1"}})
		if err != nil {
			return err
		}
		if len(of) > 0 {
			j.liars[peer] = of[0].Deliverer
		}
	}
	return nil
}

// listed learns the numbers that the manager lists, of the peers whose deliveries it judges. It reports whether these are all: others have delivered nothing. After a
// restart the manager may not name all, and looks through its index when it is asked for one of them.
func (j *Judge) listed(ctx context.Context) (all bool, err error) {
	all = true
	for _, number := range j.liars {
		all = all && number != ""
	}
	if all {
		return true, nil
	}
	var list struct {
		Peers []struct{ Peer, Deliverer string } `json:"peers"`
		More  int                                `json:"more"`
	}
	if err := j.manager(ctx, "/trust/peers", nil, &list); err != nil {
		return false, err
	}
	all = list.More == 0
	for _, p := range list.Peers {
		all = all && p.Peer != ""
		if number, ok := j.liars[p.Peer]; ok && number == "" {
			j.liars[p.Peer] = p.Deliverer
		}
	}
	return all, nil
}

// Disbelieved lists the members that the manager has suspended or banned and that are no liars, by their numbers and what is held against them.
func Disbelieved(ctx context.Context, j *Judge) (all []string, err error) {
	var list struct {
		Peers []struct {
			Peer, Deliverer, Standing string
			Forging                   float64 `json:"score_forging"`
			Laziness                  float64 `json:"score_laziness"`
			Checking                  float64 `json:"score_checking"`
			Lost                      int
		} `json:"peers"`
	}
	if err := j.manager(ctx, "/trust/peers", nil, &list); err != nil {
		return nil, err
	}
	for _, p := range list.Peers {
		if _, lies := j.liars[p.Peer]; !lies && (p.Standing == "suspended" || p.Standing == "banned") {
			all = append(all, fmt.Sprintf("%s: %s, forging %.1f, laziness %.1f, checking %.1f, %d lost", p.Deliverer, p.Standing, p.Forging, p.Laziness, p.Checking, p.Lost))
		}
	}
	return all, nil
}

// lie reports whether a deliverer, by its number, is a peer that lies.
func (j *Judge) lie(deliverer string) bool {
	if deliverer == "" {
		return false
	}
	for _, number := range j.liars {
		if number == deliverer {
			return true
		}
	}
	return false
}

// row is a channel as the manager lists it.
type row struct {
	ID      int64     `json:"id"`
	Host    string    `json:"host"`
	State   string    `json:"state"`
	Last    string    `json:"last_result"`
	Error   string    `json:"last_error"`
	Updates int       `json:"updates"`
	Updated time.Time `json:"updated"`
	Out     bool      `json:"out"`
	Awaited time.Time `json:"awaited_until"` // out: a peer has it and has not begun; zero: one crawls it
	Next    time.Time `json:"next"`          // zero: when there is room
}

const rowsPart = 1000

func (j *Judge) rows(ctx context.Context) (all []row, err error) {
	for {
		var part struct {
			Channels []row `json:"channels"`
			Total    int   `json:"total"`
		}
		if err := j.manager(ctx, "/channels", url.Values{"n": {strconv.Itoa(rowsPart)}, "from": {strconv.Itoa(len(all))}}, &part); err != nil {
			return nil, err
		}
		if all = append(all, part.Channels...); len(part.Channels) == 0 || len(all) >= part.Total {
			return all, nil
		}
	}
}

// count compares the channels' updates with those before, and with what the pond served.
func (j *Judge) count(rows []row) {
	if j.cfg.Hear != nil {
		j.cfg.Hear()
	}
	j.rowsNow = rows
	j.known(rows)
	channels := map[string]int{}
	for _, r := range rows {
		if channels[r.Host]++; channels[r.Host] > 1 {
			j.parted[j.number[bare(r.Host)]] = true
		}
	}
	for _, r := range rows {
		if r.Error != "" || r.Last == "failed" {
			j.Told(fmt.Sprintf("channel %d (%s), %s", r.ID, r.Host, r.Last), r.Error)
		}
		before := j.updates[r.ID]
		if r.Updates < before {
			j.breach(Miscounted, "channel %d (%s) had %d updates and has %d now", r.ID, r.Host, before, r.Updates)
		}
		j.updates[r.ID] = r.Updates
		n, ok := j.number[bare(r.Host)]
		if !ok || j.bad[n] != "" {
			continue
		}
		// Each update takes a crawl, and each crawl of a whole host asks for the first page.
		if j.parted[n] || j.lied[n] {
			continue
		}
		crawls := len(j.answers[pageKey{n, 0}])
		if j.cfg.Astray != nil {
			crawls += j.cfg.Astray(bare(r.Host))
		}
		if r.Updates > crawls && r.Updates > before { // what an earlier look saw is told
			j.breach(Miscounted, "channel %d (%s) has %d updates, %d at the last look; its first page was fetched %d times: %s", r.ID, r.Host, r.Updates, before, crawls, fetches(j.answers[pageKey{n, 0}]))
		}
	}
}

// fetches tells when a page was fetched, and from where.
func fetches(answers []answer) string {
	var all []string
	for _, a := range answers {
		all = append(all, a.When.UTC().Format("15:04:05.0")+" from "+a.From)
	}
	return strings.Join(all, ", ")
}

// change is a line of the archive's feed.
type change struct {
	URL     string    `json:"url"`
	Event   string    `json:"event"`
	Fetched time.Time `json:"fetched"`
	Status  int       `json:"status"`
	Digest  string    `json:"digest"`
	// Deliverer is the number of the peer that delivered it.
	Deliverer string `json:"deliverer"`
}

func (j *Judge) readFeed(ctx context.Context) error {
	for {
		part, next, err := j.changes(ctx, j.cursor)
		if err != nil {
			return err
		}
		j.heard(part)
		if j.told = append(j.told, part...); len(part) == 0 {
			return nil
		}
		j.cursor = next
	}
}

// stats is what the pond counts by itself.
type stats struct {
	MaxInFlight int         `json:"max_in_flight"`
	Violated    int         `json:"violated"`
	Violations  []violation `json:"violations"`
}

// violation is what no polite crawler does, as the pond tells it.
type violation struct {
	When   time.Time `json:"when"`
	Host   string    `json:"host"`
	Kind   string    `json:"kind"`
	Path   string    `json:"path"`
	Beside string    `json:"beside"` // of a request beside another one: that one
	Since  time.Time `json:"since"`
}

// ErrMissed says that answers fell out of the pond's log before the judge read them: it cannot judge what came of them any more, however often it looks.
var ErrMissed = errors.New("judge: answers of the pond's log are gone: look more often")

func (j *Judge) readPond(ctx context.Context) error {
	for {
		var part []answer
		if err := j.pond(ctx, "/_pond/served?since="+strconv.FormatInt(j.log, 10), &part); err != nil {
			return err
		}
		if len(part) == 0 {
			break
		}
		if part[0].N != j.log+1 {
			return fmt.Errorf("%w: answers %d to %d", ErrMissed, j.log+1, part[0].N-1)
		}
		for _, a := range part {
			if err := j.take(a); err != nil {
				return err
			}
		}
	}
	var st stats
	if err := j.pond(ctx, "/_pond/stats", &st); err != nil {
		return err
	}
	for i, v := range st.Violations {
		kind := Impolite
		if v.Kind == "robots" {
			kind = Forbidden
		}
		switch {
		case i < j.violated:
		case !j.excused(v.Kind, v.Host, v.When):
			beside := ""
			if v.Beside != "" {
				beside = fmt.Sprintf(" beside %s since %s", v.Beside, v.Since.Format(time.RFC3339Nano))
			}
			j.breach(kind, "the pond saw %q at %s: %s%s%s", v.Kind, v.When.Format(time.RFC3339Nano), v.Host, v.Path, beside)
		case v.Kind == "parallel":
			j.overlaps++
		}
	}
	if st.Violated > len(st.Violations) && j.violated < st.Violated {
		j.breach(Impolite, "the pond saw %d violations, more than it lists", st.Violated)
	}
	if st.MaxInFlight > 1 && j.counts[Impolite] == 0 && j.overlaps == 0 {
		j.breach(Impolite, "%d requests were in flight to one host", st.MaxInFlight)
	}
	j.violated = st.Violated
	return nil
}

// excused reports whether a second request to a host is nobody's fault: the host never ends an answer by itself, and the peer that had the first one stood still
// then, for longer than its lease. No program can let go while it is stopped.
//
// Nor is it anybody's fault if what the pond's robots.txt forbids is fetched, or faster than it says, from a host that serves another robots.txt, or none.
func (j *Judge) excused(kind, name string, when time.Time) bool {
	if kind == "robots" || kind == "crawl-delay" {
		return j.ownRobots(j.number[name])
	}
	return kind == "parallel" && slices.Contains(j.cfg.Endless, name) && slices.ContainsFunc(j.still, func(s span) bool {
		return when.After(s.from) && (s.to.IsZero() || when.Before(s.to.Add(j.cfg.Slack)))
	})
}

// ownRobots reports whether a host misbehaves by its robots.txt.
func (j *Judge) ownRobots(n int) bool {
	return strings.Contains(j.bad[n], "robots") || strings.Contains(j.bad[n], "sitemap")
}

// take judges one answer of the pond.
func (j *Judge) take(a answer) error {
	if a.Host < 0 || a.Host >= len(j.hosts) {
		return fmt.Errorf("judge: answer %d of the pond's log is of host %d, which there is not", a.N, a.Host)
	}
	h := j.hosts[a.Host]
	j.log = a.N
	at := pageKey{a.Host, a.Page}
	kept := a
	kept.From = ""
	j.answers[at] = append(j.answers[at], kept)
	if before, ok := j.last[a.Host]; ok {
		// A tenth is for clocks and transmission, as the pond has it.
		delay := j.delay(a.Host)
		if gap := a.When.Sub(before.When); gap < delay*9/10 {
			j.breach(Impolite, "%s was asked for page %d at %s by %s, %v after page %d by %s; its delay is %v", h.Name, a.Page, a.When.Format(time.RFC3339Nano), a.From, gap, before.Page, before.From, delay)
		}
	}
	j.last[a.Host] = a
	for _, b := range j.blocks[a.Host] {
		if a.When.After(b.from.Add(j.cfg.BlockGrace)) && (b.to.IsZero() || a.When.Before(b.to)) {
			j.breach(Forbidden, "%s was asked for page %d, %v after it was blocked", h.Name, a.Page, a.When.Sub(b.from))
		}
	}
	return nil
}

// delay is the least time between two pages of a host.
func (j *Judge) delay(host int) time.Duration {
	switch {
	case j.ownRobots(host):
		return 0
	case j.bad[host] != "":
		return j.hosts[host].CrawlDelay
	}
	return max(j.hosts[host].CrawlDelay, j.cfg.Gap)
}

// Behind lists the channels that were not crawled successfully since a moment, and the hosts that have none and must have one. Channels that an operator keeps
// from being crawled do not count, nor those of hosts that misbehave. That a manager has blocked a host by itself is no reason for one that behaves.
func (j *Judge) Behind(ctx context.Context, since time.Time) (behind []string, err error) {
	rows, err := j.rows(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now() // a time to come is one of a clock that was ahead
	if len(rows) == 0 {
		return nil, fmt.Errorf("judge: the manager lists no channels")
	}
	there := map[string]bool{}
	for _, r := range rows {
		n, ok := j.number[bare(r.Host)]
		there[bare(r.Host)] = true
		barred := ""
		if r.State == "blocked" {
			why, may := j.mayBeBlocked(r.Host)
			if may {
				continue
			}
			barred = ", " + why
		}
		if r.State != "paused" && !(ok && j.bad[n] != "") && (!r.Updated.After(since) || r.Updated.After(now.Add(j.cfg.Slack))) {
			behind = append(behind, fmt.Sprintf("channel %d (%s) is %s%s, out %v, waited for until %s, updated %s, next %s, last %s %s", r.ID, r.Host, r.State, barred, r.Out, r.Awaited.Format(time.RFC3339), r.Updated.Format(time.RFC3339), r.Next.Format(time.RFC3339), r.Last, r.Error))
		}
	}
	for _, name := range j.cfg.Crawled {
		if !there[name] {
			behind = append(behind, fmt.Sprintf("%s has no channel", name))
		}
	}
	return behind, nil
}

// NeverCameBack records channels that were Behind when their time was over.
func (j *Judge) NeverCameBack(behind []string) {
	for _, b := range behind {
		j.breach(Stale, "%s", b)
	}
}
