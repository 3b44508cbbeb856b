package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/archive/archivecmd"
	"shoal/manager/desk"
)

type hostCmd struct {
	List    hostListCmd    `cmd:"" help:"List hosts of which anything is known."`
	Block   hostBlockCmd   `cmd:"" help:"Crawl nothing on a host any more."`
	Unblock hostUnblockCmd `cmd:"" help:"Crawl a host again."`
	Reset   hostResetCmd   `cmd:"" help:"Forget what reports have told of a host: waits, place, block."`
	Purge   hostPurgeCmd   `cmd:"" help:"Take a host down: channels, tasks, pages, feed."`
}

type hostListCmd struct {
	target
	Query   string `arg:"" optional:"" help:"Part of the name."`
	Blocked bool   `help:"Blocked ones only."`
	N       int    `short:"n" help:"At most so many." default:"100" placeholder:"N"`
}

func (c *hostListCmd) Run(ctx context.Context, s streams) error {
	if err := atLeast("-n", c.N, 1); err != nil {
		return err
	}
	q := url.Values{"q": {c.Query}, "n": {fmt.Sprint(c.N)}}
	if c.Blocked {
		q.Set("blocked", "1")
	}
	return c.with(ctx, false, func(a *api.Client) error {
		var out api.Hosts
		if err := a.Do(ctx, http.MethodGet, "/hosts", q, nil, &out); err != nil {
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "HOST\tNEXT VISIT FROM\tCRAWL DELAY\tBLOCKED")
		for _, h := range out.Hosts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Name, nextVisit(&h), plain.Span(h.CrawlDelay.Duration()), plain.Printable(h.Blocked))
		}
		if err := w.Flush(); err != nil || len(out.Hosts) > 0 {
			if err == nil && out.More {
				_, err = fmt.Fprintf(s.err, "There are more: -n %d shows as many again; a part of the name narrows it down.\n", 2*len(out.Hosts))
			}
			return err
		}
		what := "crawled or blocked"
		if c.Blocked {
			what = "blocked"
		}
		_, err := fmt.Fprintf(s.err, "No host like that was %s yet.\n", what)
		return err
	})
}

// nextVisit is from when on a host may be visited.
func nextVisit(h *desk.Host) string {
	switch {
	case h.Blocked != "":
		return "-"
	case !h.NextVisit.After(time.Now()):
		return "now"
	}
	return when(h.NextVisit)
}

type hostBlockCmd struct {
	target
	Host    string `arg:"" help:"The host: example.org, with all its ports; example.org:8080 or https://example.org for that one only."`
	Why     string `help:"Why; shown with its channels." default:"by an operator" placeholder:"TEXT"`
	Unknown bool   `help:"Also if nothing is known of the host."`
}

func (c *hostBlockCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, "/hosts/block", nil, api.HostAsk{Host: c.Host, Why: c.Why, Unknown: c.Unknown}, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s is not crawled any more; peers that are at it are stopped at their next word with the archive\n", c.Host)
		return err
	})
}

type hostUnblockCmd struct {
	target
	Host string `arg:"" help:"The host."`
}

func (c *hostUnblockCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, "/hosts/unblock", nil, api.HostAsk{Host: c.Host}, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s is crawled again\n", c.Host)
		return err
	})
}

type hostResetCmd struct {
	target
	Host string `arg:"" help:"The host: example.org, with all its ports; example.org:8080 or https://example.org for that one only."`
}

func (c *hostResetCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		var out api.HostsReset
		if err := a.Do(ctx, http.MethodPost, "/hosts/reset", nil, api.HostAsk{Host: c.Host}, &out); err != nil {
			return err
		}
		then := "it is crawled when a task that may be out has ended"
		if out.Stays != "" {
			then = fmt.Sprintf("it stays blocked (%s) until shoal host unblock %s", out.Stays, c.Host)
		}
		_, err := fmt.Fprintf(s.out, "%s: what reports had told is forgotten; %s\n", c.Host, then)
		return err
	})
}

// atWork asks what of the archive's upkeep goes on, for which a takedown may have to wait.
func atWork(a *api.Client) func(context.Context) *archive.Work {
	return func(ctx context.Context) *archive.Work {
		var stats archive.Stats
		if a.Do(ctx, http.MethodGet, "/archive/stats", nil, nil, &stats) != nil {
			return nil
		}
		return stats.Work
	}
}

type hostPurgeCmd struct {
	target
	Host    string `arg:"" help:"The host: example.org, with all its ports; example.org:8080 or https://example.org for that one only."`
	Why     string `help:"Why; kept with the block." default:"taken down" placeholder:"TEXT"`
	Unknown bool   `help:"Also if nothing is known of the host."`
	Yes     bool   `help:"Do it. Its pages cannot be had back."`
}

func (c *hostPurgeCmd) Run(ctx context.Context, s streams) error {
	if !c.Yes {
		return fmt.Errorf("this removes all channels and stored pages of %s for good: add --yes", c.Host)
	}
	return c.with(ctx, false, func(a *api.Client) error {
		var out desk.Purged
		stop := archivecmd.Watch(ctx, s.err, atWork(a.Quiet()))
		err := a.Do(ctx, http.MethodPost, "/hosts/purge", nil, api.HostAsk{Host: c.Host, Why: c.Why, Unknown: c.Unknown}, &out)
		stop()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s is taken down: %d channels, %d pages, %d notes of links\n", c.Host, out.Channels, out.Pages, out.Links)
		if out.Pages == 0 {
			return err
		}
		fmt.Fprintln(s.err, "Its bytes leave the WARC files with the next compaction: a running manager begins it now, without one it is shoal archive compact.")
		return err
	})
}
