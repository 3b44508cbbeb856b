package judge

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxIndex bounds the index that is read, and maxLine a line of it.
const (
	maxIndex = 20_000_000
	maxLine  = 1 << 20
)

// End looks once more, and reads feed, index and pages as a whole.
func (j *Judge) End(ctx context.Context) (Seen, error) {
	if err := errors.Join(j.Know(ctx), j.Look(ctx)); err != nil {
		return Seen{}, err
	}
	if err := j.sameFeed(ctx); err != nil {
		return Seen{}, err
	}
	before := j.rowsNow
	all, err := j.index(ctx, nil)
	if err != nil {
		return Seen{}, err
	}
	for i, c := range all {
		all[i].lie = j.lie(c.Deliverer)
	}
	// What was stored while the index was read was served before.
	if err := j.readPond(ctx); err != nil {
		return Seen{}, err
	}
	j.indexed(all)
	// What the feed lacks that the index has it does not tell later either.
	if err := j.readFeed(ctx); err != nil {
		return Seen{}, err
	}
	of, err := j.wasServed(ctx, all)
	if err != nil {
		return Seen{}, err
	}
	if err := j.recount(ctx); err != nil {
		return Seen{}, err
	}
	j.untold(of)
	j.remains()
	j.vanished(before, j.rowsNow)
	j.whole(before, of)
	if err := errors.Join(j.readable(ctx, all), j.older(ctx, of)); err != nil {
		return Seen{}, err
	}
	seen := Seen{Answers: int(j.log), Changes: len(j.told), Captures: len(all)}
	for _, n := range j.updates {
		seen.Updates += n
	}
	return seen, nil
}

// recount looks at the channels once more: what the index has has been counted by now, but for one crawl of each.
func (j *Judge) recount(ctx context.Context) error {
	rows, err := j.rows(ctx)
	if err == nil {
		err = j.readPond(ctx)
	}
	if err == nil {
		j.count(rows)
	}
	return err
}

// sameFeed reads the feed from its beginning. Everything that it told before must be there, in the same order.
func (j *Judge) sameFeed(ctx context.Context) error {
	told := j.told
	if len(j.purged)+len(j.liars) > 0 { // what was told of hosts that were taken down may be gone
		told = slices.DeleteFunc(slices.Clone(told), j.takenBack)
	}
	cursor, n := "", 0
	for n < len(told) {
		part, next, err := j.changes(ctx, cursor)
		if err != nil {
			return err
		}
		if len(part) == 0 {
			j.breach(Lost, "the feed told %d changes and has %d now", len(told), n)
			return nil
		}
		cursor = next
		for _, c := range part {
			if j.takenBack(c) {
				continue
			}
			if n < len(told) && !c.same(told[n]) {
				return moved(ctx, j, told, n)
			}
			n++
		}
	}
	return nil
}

// moved says what has become of a feed that does not have told's nth change in its place any more.
func moved(ctx context.Context, j *Judge, told []change, n int) error {
	var now []change
	for cursor := ""; ; {
		part, next, err := j.changes(ctx, cursor)
		if err != nil {
			return err
		}
		if cursor = next; len(part) == 0 {
			break
		}
		now = append(now, slices.DeleteFunc(part, j.takenBack)...)
	}
	place := func(in []change, of change) string {
		if at := slices.IndexFunc(in, of.same); at >= 0 {
			return fmt.Sprintf("is change %d", at+1)
		}
		return "is not there"
	}
	say := func(c change) string {
		return fmt.Sprintf("%s of %s, fetched %s, delivered by %q", c.Event, c.URL, c.Fetched.Format(time.RFC3339Nano), c.Deliverer)
	}
	if n >= len(now) {
		return nil
	}
	j.breach(Lost, "change %d of the feed was %s, which %s now; in its place is %s, which %s of what was told; %d changes were told, and %d are there", n+1, say(told[n]), place(now, told[n]),
		say(now[n]), place(told, now[n]), len(told), len(now))
	return nil
}

// takenBack reports whether a change may be gone: its host was ever taken down, or its deliverer lies.
func (j *Judge) takenBack(c change) bool {
	_, ok := j.down(c.URL)
	return ok || j.lie(c.Deliverer)
}

// down is when the host of a URL was last taken down.
func (j *Judge) down(rawURL string) (time.Time, bool) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return time.Time{}, false
	}
	n, ok := j.number[u.Hostname()]
	if !ok {
		return time.Time{}, false
	}
	at, ok := j.purged[n]
	return at, ok
}

func (c change) same(d change) bool {
	return c.URL == d.URL && c.Event == d.Event && c.Digest == d.Digest && c.Fetched.Equal(d.Fetched)
}

// capture is a line of the index.
type capture struct {
	URL    string `json:"url"`
	Status int    `json:"status"`
	Digest string `json:"digest"`
	State  string `json:"state"`
	// Deliverer is the number of the peer that delivered it.
	Deliverer string `json:"deliverer"`

	at  time.Time
	lie bool // its deliverer is one that lies
}

// States of captures, as the index names them.
const (
	withdrawn = "withdrawn"
	verified  = "verified"
)

// stamp is a time as the index writes it.
const stamp = "20060102150405"

// index reads all captures, or those that a filter wants. What was delivered by a peer that has delivered nothing is nothing.
func (j *Judge) index(ctx context.Context, filter url.Values) (all []capture, err error) {
	of := "/api/v1/archive/cdx?all=1&" + filter.Encode()
	res, err := j.ask(ctx, j.cfg.Manager+of, true)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if filter.Has("deliverer") && res.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("judge: %s: %s", of, res.Status)
	}
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		f := strings.SplitN(s.Text(), " ", 3)
		var c capture
		if len(f) < 3 || json.Unmarshal([]byte(f[2]), &c) != nil {
			return nil, fmt.Errorf("judge: a line of the index cannot be read: %.100q", s.Text())
		}
		if c.at, err = time.Parse(stamp, f[1][:min(len(stamp), len(f[1]))]); err != nil {
			return nil, fmt.Errorf("judge: a line of the index cannot be read: %w", err)
		}
		if all = append(all, c); len(all) == maxIndex {
			return nil, fmt.Errorf("judge: the index is longer than %d lines: make the run shorter", maxIndex)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("judge: read the index: %w", err)
	}
	return all, nil
}

// indexed checks that the index has what the feed told, and nothing that robots.txt forbids.
func (j *Judge) indexed(all []capture) {
	has, gone := map[visit]bool{}, map[string]bool{}
	for _, c := range all {
		has[visit{c.URL, c.at.Format(stamp)}] = true
		u, err := url.Parse(c.URL)
		if err != nil {
			j.breach(Unserved, "the index has %q, which is no URL", c.URL)
			continue
		}
		before := func(down time.Time) bool {
			return !slices.ContainsFunc(j.could(c.at), func(at time.Time) bool { return !at.Add(time.Second).Before(down) })
		}
		if down, ok := j.down(c.URL); ok && before(down) {
			j.breach(Undead, "the archive has %s of %s, and its host was taken down at %s", c.URL, c.at.Format(time.RFC3339), down.Format(time.RFC3339))
		}
		if n, ok := j.number[u.Hostname()]; ok && j.hosts[n].Private && !j.ownRobots(n) && strings.HasPrefix(u.Path, "/private/") {
			j.breach(Forbidden, "the archive has %s, which robots.txt forbids", c.URL)
		}
	}
	for _, c := range j.told {
		gone[c.URL] = gone[c.URL] || c.Event == "gone" || c.Event == "withdrawn"
	}
	for _, c := range j.told {
		stored := c.Event == "created" || c.Event == "changed"
		if stored && !gone[c.URL] && !j.takenBack(c) && !has[visit{c.URL, c.Fetched.UTC().Format(stamp)}] {
			j.breach(Lost, "the feed told that %s was %s at %s; the index does not have it", c.URL, c.Event, c.Fetched.Format(time.RFC3339Nano))
		}
	}
}

// readable reads the newest version of each page. Its content must be that of its capture.
func (j *Judge) readable(ctx context.Context, all []capture) error {
	return readEach(ctx, j, j.newestOf(all))
}

// readEach reads a version of each page, or of so many as End reads.
func readEach(ctx context.Context, j *Judge, versions map[string]version) error {
	urls := slices.Sorted(maps.Keys(versions))
	n := len(urls)
	if j.cfg.Reads > 0 {
		n = min(n, j.cfg.Reads)
	}
	for i := range n {
		u := urls[i*len(urls)/n]
		if err := j.reads(ctx, u, versions[u]); err != nil {
			return err
		}
	}
	return nil
}

// reads reads a version of a page.
func (j *Judge) reads(ctx context.Context, u string, v version) error {
	body, code, err := j.read(ctx, j.cfg.Manager+"/api/v1/archive/page?"+url.Values{"url": {u}, "at": {v.at.Format(stamp)}}.Encode(), true)
	if code == 404 || code == 500 {
		j.breach(Lost, "%s of %s cannot be read: %v", u, v.at.Format(time.RFC3339), err)
		return nil
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if slices.Contains(v.digests, digest) {
		return nil
	}
	again, err := j.index(ctx, url.Values{"url": {u}}) // that version may have been withdrawn meanwhile
	if err != nil {
		return err
	}
	var still []string
	for _, c := range again {
		if c.URL == u && c.at.Equal(v.at) && c.State != withdrawn {
			still = append(still, c.Digest)
		}
	}
	if len(still) > 0 && !slices.Contains(still, digest) {
		j.breach(Lost, "%s of %s has another content than its capture", u, v.at.Format(time.RFC3339))
	}
	return nil
}

// version is what the captures of a page have that were made in its newest second.
type version struct {
	at      time.Time
	digests []string
}

// newestOf are the newest versions of pages that can be read.
func (j *Judge) newestOf(all []capture) map[string]version {
	newest := map[string]version{}
	for _, c := range all {
		if c.Status != 200 || c.State == withdrawn || j.misbehaves(c.URL) || c.at.Before(newest[c.URL].at) {
			continue
		}
		v := newest[c.URL]
		if !c.at.Equal(v.at) {
			v = version{at: c.at}
		}
		v.digests = append(v.digests, c.Digest)
		newest[c.URL] = v
	}
	return newest
}
