package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/control"
	"shoal/peer/limit"
)

type logCmd struct {
	remote
	Lines  *int   `short:"n" help:"Number of newest lines; by default 50, and with --since all." placeholder:"N"`
	Match  string `help:"Only lines whose URL or title contains this text, in any case." placeholder:"TEXT"`
	Site   string `help:"Only fetches of this site." placeholder:"HOST"`
	For    string `name:"network" help:"Only fetches for this network: its company or the beginning of its name." placeholder:"NETWORK"`
	Sites  bool   `help:"Show totals by site instead of single lines."`
	Since  string `help:"Only fetches since then: 2h for the last two hours, 08:00 for today, 2026-11-22, or a time as in --json." placeholder:"WHEN"`
	Follow bool   `short:"f" help:"Go on with what is fetched from now on, until interrupted."`
}

func (c *logCmd) Run(ctx context.Context, s streams, top *cli) error {
	if c.Sites && c.Follow {
		return fmt.Errorf("%w: --sites shows totals, which --follow cannot go on with; leave one of them out", errSettings)
	}
	site, err := siteOf(c.Site)
	if err != nil {
		return err
	}
	want := peer.Want{Newest: defaultLines, Match: c.Match, Site: site}
	if c.Since != "" {
		var err error
		if want.Since, err = since(c.Since, time.Now()); err != nil {
			return err
		}
		want.Newest = 0
	}
	if c.Lines != nil {
		if want.Newest = *c.Lines; want.Newest < 1 {
			return fmt.Errorf("%w: --lines %d; want 1 or more", errSettings, want.Newest)
		}
	}
	_, set, err := client(s, top, c.Data)
	if err != nil && !errors.Is(err, control.ErrNoAgent) { // the record can be read without a running peer
		return err
	}
	if _, err := os.Stat(set.journal()); errors.Is(err, fs.ErrNotExist) && !c.Follow { // to look makes no folder
		return fmt.Errorf("there is no record of URLs in %s: no peer ran there; name its folder with --data", set.Data)
	}
	j, err := peer.OpenJournal(set.journal())
	if err != nil {
		return err
	}
	defer j.Close()
	if want.For, err = recorded(set.Data, c.For, j); err != nil {
		return err
	}
	if c.Sites {
		return c.sites(s, j, want, set.journal())
	}
	names := companies(set.Data)
	show := func(e peer.Entry) error { return c.show(s, e, names) }
	if !c.Follow {
		entries, err := j.Log(want)
		if err == nil && len(entries) == 0 {
			nothing(s, set.journal(), &want)
		}
		return errors.Join(err, each(entries, show))
	}
	tail, err := j.Tail() // before the entries are read, so that none falls between
	if err != nil {
		return err
	}
	entries, err := j.Log(want)
	if err := errors.Join(err, each(entries, show)); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries[max(0, len(entries)-maxSeen):] {
		seen[e.URL+e.At.String()] = true
	}
	return tail.Follow(ctx, want, func(e peer.Entry) error {
		if seen[e.URL+e.At.String()] {
			return nil
		}
		return show(e)
	})
}

// siteOf is a site as the record names it. People name one by its URL, too. Another port is another site there.
func siteOf(named string) (string, error) {
	if named == "" {
		return "", nil
	}
	if !limit.IsDomain(named) {
		return "", fmt.Errorf("%w: --site %q; want a host such as example.org", errSettings, named)
	}
	site, bare := limit.Domain(named), named
	if strings.Contains(site, ":") {
		site = "[" + site + "]"
	}
	scheme, behind, ok := strings.Cut(bare, "://")
	if ok {
		bare = behind
	}
	if i := strings.IndexAny(bare, "/?#"); i >= 0 {
		bare = bare[:i]
	}
	usual := map[string]string{"http": "80", "https": "443"}
	if _, port, err := net.SplitHostPort(bare); err == nil && port != usual[strings.ToLower(scheme)] {
		site += ":" + port
	}
	return site, nil
}

// defaultLines is how many lines a log shows unless it is told.
const defaultLines = 50

// nothing says that the record holds nothing of what is wanted, and where it was looked for: an empty answer may be one about another folder.
func nothing(s streams, dir string, want *peer.Want) {
	if want.Since.IsZero() {
		fmt.Fprintf(s.err, "Nothing that fits is in the record of URLs, %s.\n", dir)
		return
	}
	fmt.Fprintf(s.err, "Nothing that fits was fetched since %s, by the record of URLs, %s.\n", want.Since.Local().Format(time.DateTime), dir)
}

// sites shows totals by site.
func (c *logCmd) sites(s streams, j *peer.Journal, want peer.Want, dir string) error {
	list, all, err := j.Sites(want)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		nothing(s, dir, &want)
		return nil
	}
	if c.JSON {
		for _, x := range list {
			if err := json.NewEncoder(s.out).Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	printSites(s.out, list, all)
	return nil
}

// maxSeen bounds the entries that a follower compares with those that were written while it read.
const maxSeen = 1000

func each(entries []peer.Entry, show func(peer.Entry) error) error {
	for _, e := range entries {
		if err := show(e); err != nil {
			return err
		}
	}
	return nil
}

// companies are the names of the companies for whose networks this computer crawls, as status shows them. Of a network that was left there is none, nor of two of
// the same name.
func companies(data string) map[string]string {
	names, of := map[string]string{}, map[string]int{}
	all, _ := peer.Memberships(data) // of a damaged one the network's own name is shown
	for _, m := range all {
		names[m.Network.String()] = plain.Printable(m.Company)
		of[plain.Printable(m.Company)]++
	}
	maps.DeleteFunc(names, func(_, company string) bool { return of[company] > 1 })
	return names
}

func (c *logCmd) show(s streams, e peer.Entry, names map[string]string) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(e)
	}
	what := strconv.Itoa(e.Status)
	if e.Status == 0 {
		what = e.Error
	}
	title := ""
	if e.Title != "" {
		title = "  " + strconv.Quote(e.Title)
	}
	network := cmp.Or(names[e.For], e.For[:min(shortName, len(e.For))])
	_, err := fmt.Fprintf(s.out, "%s  %-3s %8d  %s  for %s%s\n", e.At.Local().Format(time.DateTime), what, e.Bytes, e.URL, network, title)
	return err
}

// since reads a moment of the past.
func since(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if t, err := time.ParseInLocation("15:04", text, now.Location()); err == nil {
		return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location()), nil
	}
	return time.Time{}, fmt.Errorf("%w: --since %q; want 2h, 08:00, 2026-11-22, or 2026-11-22T08:00:00Z", errSettings, text)
}
