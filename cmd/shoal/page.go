package main

import (
	"context"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/web"
)

// operator is what the page may ask of a station, in the page's words.
type operator struct {
	*manager.Manager
	desk *manager.Desk
}

func (o operator) Add(ctx context.Context, urls []string) (added, known int, err error) {
	chs, err := channelsOf(urls)
	if err != nil {
		return 0, 0, err
	}
	_, refused, err := o.AddChannels(ctx, chs)
	return len(chs) - len(refused), len(refused), err
}

func (o operator) Proposals(ctx context.Context, id channel.ID) (dirs []web.Dir, pages int, err error) {
	found, pages, err := o.desk.Proposals(ctx, id)
	for _, d := range found {
		dirs = append(dirs, web.Dir{Dir: d.Dir, Pages: d.Pages})
	}
	return dirs, pages, err
}

func (o operator) Split(ctx context.Context, id channel.ID, dirs []string) error {
	_, _, err := o.desk.Split(ctx, id, dirs)
	return err
}

func (o operator) Hosts(ctx context.Context, query string, blocked bool, n int) (hosts []web.Host, err error) {
	rows, err := o.desk.Hosts(ctx, query, blocked, n)
	for _, r := range rows {
		hosts = append(hosts, web.Host{Name: r.Name, Blocked: r.Blocked, NextVisit: r.NextVisit, CrawlDelay: r.CrawlDelay})
	}
	return hosts, err
}

func (o operator) Block(ctx context.Context, host, why string) error {
	return o.desk.Block(ctx, host, why)
}

func (o operator) InForce(ctx context.Context) (string, error) {
	i, err := o.Strategy(ctx)
	return i.Name, err
}

func (o operator) Preview(ctx context.Context, name string) (web.Trial, error) {
	t, err := o.TryStrategy(ctx, manager.StrategyChoice{Name: name})
	look := func(l manager.Outlook) web.Outlook {
		return web.Outlook{Strategy: l.Strategy, Tasks: l.Tasks, New: l.New, ByGroup: l.ByGroup, Freshness: l.Freshness, Intervals: l.Intervals}
	}
	return web.Trial{Ahead: t.Ahead, Channels: t.Channels, Of: t.Of, Capacity: t.Capacity, Now: look(t.Now), Then: look(t.Then)}, err
}
