package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"shoal/channel"
	"shoal/channel/listing"
	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type channelCmd struct {
	Add      channelAddCmd    `cmd:"" help:"Add sites: a whole host, or one directory of it."`
	Import   channelImportCmd `cmd:"" help:"Add the channels of a list: CSV, JSON lines, URLs, a sitemap or OPML; all or none."`
	List     channelListCmd   `cmd:"" help:"List channels."`
	Show     channelShowCmd   `cmd:"" help:"Show one channel and what happened to it."`
	Edit     channelEditCmd   `cmd:"" help:"Change a channel's settings."`
	Export   channelExportCmd `cmd:"" help:"Write channels as a list."`
	CrawlNow crawlNowCmd      `cmd:"" name:"crawl-now" help:"Crawl channels as soon as there is room."`
	Pause    channelPauseCmd  `cmd:"" help:"Hand channels out no more."`
	Resume   channelResumeCmd `cmd:"" help:"Go on with paused or given up channels."`
	Split    channelSplitCmd  `cmd:"" help:"Make large directories of a channel channels of their own."`
	Remove   channelRemoveCmd `cmd:"" help:"Forget channels; their pages stay in the archive."`
	Found    channelFoundCmd  `cmd:"" help:"List hosts without a channel that crawls found."`
}

// settings are flags that add and edit share; what is not given is not changed.
type settings struct {
	Order     *string  `help:"Which pages are fetched first: ${orders}. By default breadth-first." placeholder:"NAME"`
	Pages     *int     `help:"Pages of one task; 0: learnt." placeholder:"N"`
	PageBytes *int     `help:"Largest page fetched; 0: 2 MiB." placeholder:"BYTES"`
	Weight    *float64 `help:"Importance among channels, to 1000000; 0: as all." placeholder:"W"`
	Filter    []string `help:"RE2 pattern: a URL must match one of them." sep:"none" placeholder:"RE"`
	Exclude   []string `help:"RE2 pattern: a URL must match none of them. An empty one, --exclude '', leaves none, and so with --filter and --seed." sep:"none" placeholder:"RE"`
	Depth     *int     `help:"Links from a seed to a page, at most; 0: 15." placeholder:"N"`
	TextOnly  *bool    `help:"Keep main text instead of raw pages." negatable:""`
	Group     *int     `help:"Fixed priority group, 1 the fastest; 0: learnt." placeholder:"N"`
	Seed      []string `help:"Further URLs to begin from." sep:"none" placeholder:"URL"`
}

// fields are the settings that were given, as the API takes them.
func (s *settings) fields() (map[string]any, error) {
	m := map[string]any{}
	if w := s.Weight; w != nil && !(*w >= 0 && *w <= listing.MaxWeight) {
		return nil, fmt.Errorf("--weight %v: want 0 (as all) to %d", *w, int(listing.MaxWeight))
	}
	put := func(name string, given bool, v any) {
		if given {
			m[name] = v
		}
	}
	put("order", s.Order != nil, s.Order)
	put("pages", s.Pages != nil, s.Pages)
	put("page_bytes", s.PageBytes != nil, s.PageBytes)
	put("weight", s.Weight != nil, s.Weight)
	put("filters", s.Filter != nil, listed(s.Filter))
	put("exclude", s.Exclude != nil, listed(s.Exclude))
	put("depth", s.Depth != nil, s.Depth)
	put("text_only", s.TextOnly != nil, s.TextOnly)
	put("group", s.Group != nil, s.Group)
	put("seeds", s.Seed != nil, listed(s.Seed))
	return m, nil
}

// listed is what stands in a list of flags: an empty word alone means an empty list. As a pattern it would match every address.
func listed(words []string) []string {
	if len(words) == 1 && words[0] == "" {
		return []string{}
	}
	return words
}

var (
	errNoSite = errors.New("an empty word is no site: write https://example.org/ for a host, https://example.org/news/ for one directory")
	lineOf    = regexp.MustCompile(`^nothing was imported: line (\d+): `)
)

// ofSite words an error of a list that was made of arguments: there are no lines.
func ofSite(err error, sites []string) error {
	text := strings.Replace(err.Error(), "listing: bad line: ", "", 1)
	if m := lineOf.FindStringSubmatch(text); m != nil {
		if n, aerr := strconv.Atoi(m[1]); aerr == nil && n >= 1 && n <= len(sites) {
			text = fmt.Sprintf("nothing was added: %s: %s", withoutPassword(sites[n-1]), text[len(m[0]):])
		}
	}
	return errors.New(text)
}

// withoutPassword is a site as it is kept if it names a user, whose password is not kept and not shown.
func withoutPassword(site string) string {
	if strings.Contains(site, "@") {
		if _, seed, err := channel.ScopeOf(site); err == nil {
			return seed
		}
	}
	return site
}

// atLeast refuses a number that is too small.
func atLeast(flag string, n, least int) error {
	if n < least {
		return fmt.Errorf("%s %d: want %d or more", flag, n, least)
	}
	return nil
}

type channelAddCmd struct {
	target
	settings
	URLs []string `arg:"" name:"url" help:"Sites to add."`
}

func (c *channelAddCmd) Run(ctx context.Context, s streams) error {
	var list bytes.Buffer
	for _, u := range c.URLs {
		m, err := c.fields()
		if err != nil {
			return err
		}
		if strings.TrimSpace(u) == "" {
			return errNoSite
		}
		m["url"] = u
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		list.Write(append(b, '\n'))
	}
	return c.with(ctx, false, func(a *api.Client) error {
		return importList(ctx, a, s, &list, listing.JSON, "", c.URLs)
	})
}

// ids are channels named by number, or by the URL or host that they were added with.
type ids struct {
	Channels []string `arg:"" name:"channel" help:"Channels by number, as shown by list, or by host."`
}

// each finds the channels and calls f for each. One that is refused does not keep the rest from it; a manager that does not answer does.
func (i *ids) each(ctx context.Context, a *api.Client, f func(channel.ID) error) error {
	var all error
	for _, name := range i.Channels {
		id, err := findChannel(ctx, a, name)
		if err == nil {
			err = f(id)
		}
		all = errors.Join(all, err)
		var unanswered *url.Error
		if ctx.Err() != nil || errors.As(err, &unanswered) {
			break
		}
	}
	return all
}

// errWhich is returned where a name says nothing, or too much.
var errWhich = errors.New("this manager has none")

func findChannel(ctx context.Context, a *api.Client, name string) (channel.ID, error) {
	if n, err := strconv.ParseUint(name, 10, 64); err == nil && n > 0 {
		return channel.ID(n), nil
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n <= 0 {
		return 0, fmt.Errorf("%s is no channel's number: they begin with 1, and shoal channel list shows them", name)
	}
	full := strings.TrimSpace(name)
	if full == "" {
		return 0, errors.New("an empty word is no channel: name it by its number, as shoal channel list shows it, or by its host")
	}
	urls := []string{full}
	if !strings.Contains(full, "://") {
		urls = []string{"https://" + full, "http://" + full}
	}
	var found []channel.ID
	for _, u := range urls {
		scope, _, err := channel.ScopeOf(u)
		if err != nil {
			return 0, fmt.Errorf("%q is neither a channel's number nor a URL: %w", name, err)
		}
		id, err := channelOf(ctx, a, &scope)
		if err != nil {
			return 0, err
		}
		if id != 0 {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, fmt.Errorf("%s: %w; shoal channel list shows its channels", name, errWhich)
	}
	return 0, fmt.Errorf("%s may be any of channels %v: give a number", name, found)
}

const lookedAt = 1000 // channels that are asked for at a time

// channelOf finds the channel of a scope, of today's spelling first; 0: there is none. The manager looks for a part of the host's name, which others may have, too.
func channelOf(ctx context.Context, a *api.Client, scope *channel.Scope) (channel.ID, error) {
	dir := ""
	if len(scope.Dirs) == 1 {
		dir = scope.Dirs[0]
	}
	former := channel.ID(0)
	for from := 0; ; from += lookedAt {
		var rows api.Rows
		if err := a.Quiet().Do(ctx, http.MethodGet, "/channels", url.Values{"q": {scope.Host}, "from": {fmt.Sprint(from)}, "n": {fmt.Sprint(lookedAt)}}, nil, &rows); err != nil {
			return 0, err
		}
		for _, r := range rows.Channels {
			if r.Host == scope.Host && r.Scope == dir {
				return r.ID, nil
			}
			if r.Host == scope.Host && former == 0 && channel.Respell(r.Scope) == dir {
				former = r.ID
			}
		}
		if from+lookedAt >= rows.Total {
			return former, nil
		}
	}
}

type channelEditCmd struct {
	target
	settings
	ids
}

func (c *channelEditCmd) Run(ctx context.Context, s streams) error {
	m, err := c.fields()
	if err != nil {
		return err
	}
	if len(m) == 0 {
		return errors.New("nothing to change: name a setting, as in --weight 2; shoal channel edit --help lists them")
	}
	return c.with(ctx, false, func(a *api.Client) error {
		return c.each(ctx, a, func(id channel.ID) error {
			var after listing.Record
			if err := a.Do(ctx, http.MethodPatch, fmt.Sprintf("/channels/%d", id), nil, m, &after); err != nil {
				return fmt.Errorf("channel %d was not changed: %w", id, ofSite(err, nil))
			}
			_, err := fmt.Fprintf(s.out, "channel %d changed\n", id)
			return err
		})
	})
}

type channelExportCmd struct {
	target
	Query  string `arg:"" optional:"" help:"Part of the host's name."`
	Format string `help:"csv, jsonl, list or opml." enum:"csv,jsonl,list,opml" default:"jsonl" placeholder:"NAME"`
}

func (c *channelExportCmd) Run(ctx context.Context, s streams) error {
	return c.client(ctx, false, func(a *api.Client) error {
		return a.Do(ctx, http.MethodGet, "/channels/export", url.Values{"q": {c.Query}, "format": {c.Format}}, nil, s.out)
	})
}

// wish sends one wish for each channel.
func wish(ctx context.Context, t *target, i *ids, s streams, live bool, method, verb, done string) error {
	return t.with(ctx, live, func(a *api.Client) error {
		return i.each(ctx, a, func(id channel.ID) error {
			if err := a.Do(ctx, method, fmt.Sprintf("/channels/%d%s", id, verb), nil, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.out, "channel %d %s\n", id, done)
			return err
		})
	})
}

type crawlNowCmd struct {
	target
	ids
}

func (c *crawlNowCmd) Run(ctx context.Context, s streams) error {
	return wish(ctx, &c.target, &c.ids, s, true, http.MethodPost, "/crawl-now", "is crawled as soon as there is room")
}

type channelPauseCmd struct {
	target
	ids
}

func (c *channelPauseCmd) Run(ctx context.Context, s streams) error {
	return wish(ctx, &c.target, &c.ids, s, false, http.MethodPost, "/pause", "paused")
}

type channelResumeCmd struct {
	target
	ids
}

func (c *channelResumeCmd) Run(ctx context.Context, s streams) error {
	return wish(ctx, &c.target, &c.ids, s, false, http.MethodPost, "/resume", "goes on")
}

type channelRemoveCmd struct {
	target
	ids
	Yes bool `help:"Do it. It cannot be undone."`
}

func (c *channelRemoveCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		var named []string
		if err := c.each(ctx, a, func(id channel.ID) error {
			asked, path := a, fmt.Sprintf("/channels/%d", id)
			if c.Yes { // with --json the answer to the removal is the only one
				asked = a.Quiet()
			}
			var r api.Detail
			if err := asked.Do(ctx, http.MethodGet, path, nil, nil, &r); err != nil {
				return err
			}
			if !c.Yes {
				named = append(named, fmt.Sprintf("channel %d (%s, %s)", id, plain.Printable(r.Row.Host), plain.Count(r.Row.Visits, "visit")))
			} else if err := a.Do(ctx, http.MethodDelete, path, nil, nil, nil); err != nil {
				return err
			} else if _, err := fmt.Fprintf(s.out, "channel %d removed\n", id); err != nil {
				return err
			}
			for _, l := range r.LeftOut {
				fmt.Fprintln(s.err, leftOut(l))
			}
			return nil
		}); err != nil || c.Yes {
			return err
		}
		return fmt.Errorf("this would forget %s, with all that was learnt there, and cannot be undone: add --yes to do it. The pages stay in the archive; shoal channel pause only has it wait", strings.Join(named, ", "))
	})
}

// leftOut says what becomes of a directory whose channel is removed.
func leftOut(l desk.LeftOut) string {
	return fmt.Sprintf("Without it nothing crawls %s: channel %d leaves it out by the pattern %s. To have that one crawl it, give shoal channel edit %[2]d --exclude with the patterns that are to stay, or --exclude '' for none.",
		plain.Printable(l.Dir), l.Channel, plain.Printable(l.Pattern))
}

type channelSplitCmd struct {
	target
	Channel string   `arg:"" help:"Channel by number or by host."`
	Dirs    []string `arg:"" optional:"" name:"dir" help:"Directories, as /news/; by default those that are large by what was seen."`
	Show    bool     `help:"Only show what would become channels."`
}

func (c *channelSplitCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		id, err := findChannel(ctx, a, c.Channel)
		if err != nil {
			return err
		}
		path := fmt.Sprintf("/channels/%d/split", id)
		if c.Show {
			var p api.Proposal
			if err := a.Do(ctx, http.MethodGet, path, nil, nil, &p); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "channel %d: %d pages stored\n", id, p.All)
			if len(p.Dirs) == 0 {
				_, err := fmt.Fprintf(s.out, "no directory of it is large enough for a channel of its own: at least %d pages, and %.0f%% of the channel's\n", desk.SplitLeast, 100*desk.SplitShare)
				return err
			}
			for _, d := range p.Dirs {
				fmt.Fprintf(s.out, "%8d  %s\n", d.Pages, d.Dir)
			}
			return nil
		}
		var done api.SplitDone
		if err := a.Do(ctx, http.MethodPost, path, nil, api.Split{Dirs: c.Dirs}, &done); err != nil {
			return err
		}
		for i, id := range done.Channels {
			fmt.Fprintf(s.out, "channel %d  %s\n", id, plain.Printable(done.Dirs[i]))
		}
		return nil
	})
}

type channelFoundCmd struct {
	target
	N int `short:"n" help:"At most so many." default:"50" placeholder:"N"`
}

func (c *channelFoundCmd) Run(ctx context.Context, s streams) error {
	if err := atLeast("-n", c.N, 1); err != nil {
		return err
	}
	return c.with(ctx, false, func(a *api.Client) error {
		var out desk.CandidateList
		if err := a.Do(ctx, http.MethodGet, "/candidates", url.Values{"n": {strconv.Itoa(c.N)}}, nil, &out); err != nil {
			return err
		}
		for _, x := range out.Candidates {
			fmt.Fprintf(s.out, "%6d  %s\n", x.Links, x.Host)
		}
		fmt.Fprintf(s.err, "%d of %d hosts that crawls found; add one with shoal channel add\n", len(out.Candidates), out.Total)
		return nil
	})
}
