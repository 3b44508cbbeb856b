package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/recrawl"
)

type hostCmd struct {
	List    hostListCmd    `cmd:"" help:"List hosts of which anything is known."`
	Block   hostBlockCmd   `cmd:"" help:"Crawl nothing on a host any more."`
	Unblock hostUnblockCmd `cmd:"" help:"Crawl a host again."`
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Name, nextVisit(h.NextVisit), plain.Span(h.CrawlDelay.Duration()), h.Blocked)
		}
		if err := w.Flush(); err != nil || len(out.Hosts) > 0 {
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

// nextVisit is when a host may be visited.
func nextVisit(t time.Time) string {
	if !t.After(time.Now()) {
		return "now"
	}
	return when(t)
}

type hostBlockCmd struct {
	target
	Host string `arg:"" help:"The host: example.org, with all its ports; example.org:8080 or https://example.org for that one only."`
	Why  string `help:"Why; shown with its channels." default:"by an operator" placeholder:"TEXT"`
}

func (c *hostBlockCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, "/hosts/block", nil, api.HostAsk{Host: c.Host, Why: c.Why}, nil); err != nil {
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

type hostPurgeCmd struct {
	target
	Host string `arg:"" help:"The host: example.org, with all its ports; example.org:8080 or https://example.org for that one only."`
	Why  string `help:"Why; kept with the block." default:"taken down" placeholder:"TEXT"`
	Yes  bool   `help:"Do it. Its pages cannot be had back."`
}

func (c *hostPurgeCmd) Run(ctx context.Context, s streams) error {
	if !c.Yes {
		return fmt.Errorf("this removes all channels and stored pages of %s for good: add --yes", c.Host)
	}
	return c.with(ctx, false, func(a *api.Client) error {
		var out desk.Purged
		if err := a.Do(ctx, http.MethodPost, "/hosts/purge", nil, api.HostAsk{Host: c.Host, Why: c.Why}, &out); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s is taken down: %d channels, %d pages, %d notes of links\n", c.Host, out.Channels, out.Pages, out.Links)
		if out.Pages == 0 {
			return err
		}
		fmt.Fprintln(s.err, "Its bytes leave the WARC files with the next compaction: a running manager begins it now, without one it is shoal archive compact.")
		return err
	})
}

type peerCmd struct {
	List   peerListCmd   `cmd:"" help:"List the members that the manager knows of."`
	Invite peerInviteCmd `cmd:"" help:"Print a join string."`
	Ban    peerBanCmd    `cmd:"" help:"Refuse a peer or an account from now on."`
	Unban  peerUnbanCmd  `cmd:"" help:"Admit it again."`
}

type peerListCmd struct {
	target
	JSON bool `name:"json" help:"As JSON."`
}

func (c *peerListCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		if c.JSON {
			return a.Do(ctx, http.MethodGet, "/peers", nil, nil, s.out)
		}
		var peers []desk.Peer
		if err := a.Do(ctx, http.MethodGet, "/peers", nil, nil, &peers); err != nil {
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "PEER\tRUNNING\tQUEUED\tPREDICTED RTT\tHEARD OF")
		for _, p := range peers {
			fmt.Fprintf(w, "%s\t%d\t%d\t%.1f ms\t%s\n", p.ID, p.Running, p.Queued, p.RTTMS, when(p.Seen))
		}
		var banned api.Banned
		if err := a.Do(ctx, http.MethodGet, "/peers/banned", nil, nil, &banned); err != nil {
			return err
		}
		for _, name := range banned.Banned {
			fmt.Fprintf(w, "%s\tbanned\n", name)
		}
		return w.Flush()
	})
}

type peerInviteCmd struct {
	target
	Uses uint32 `help:"For so many peers." default:"1" placeholder:"N"`
}

func (c *peerInviteCmd) Run(ctx context.Context, s streams) error {
	if c.Uses < 1 || c.Uses > desk.MaxUses {
		return fmt.Errorf("--uses %d: want 1 to %d", c.Uses, desk.MaxUses)
	}
	return c.with(ctx, true, func(a *api.Client) error {
		var out api.Invited
		if err := a.Do(ctx, http.MethodPost, "/peers/invite", nil, api.Invite{Uses: c.Uses}, &out); err != nil {
			return err
		}
		_, err := fmt.Fprintln(s.out, out.Join)
		return err
	})
}

type peerBanCmd struct {
	target
	Peer string `arg:"" help:"Peer id or account."`
}

func (c *peerBanCmd) Run(ctx context.Context, s streams) error {
	return ban(ctx, &c.target, s, c.Peer, true, "is refused from now on; what it holds ends with its certificate, within a day")
}

type peerUnbanCmd struct {
	target
	Peer string `arg:"" help:"Peer id or account."`
}

func (c *peerUnbanCmd) Run(ctx context.Context, s streams) error {
	return ban(ctx, &c.target, s, c.Peer, false, "may join again")
}

func ban(ctx context.Context, t *target, s streams, peer string, banned bool, done string) error {
	return t.with(ctx, true, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, "/peers/ban", nil, api.Ban{Peer: peer, Banned: banned}, nil); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.out, peer, done); err != nil || !banned {
			return err
		}
		var peers []desk.Peer
		if err := a.Do(ctx, http.MethodGet, "/peers", nil, nil, &peers); err != nil {
			return err
		}
		for _, p := range peers {
			if p.ID == peer {
				return nil
			}
		}
		_, err := fmt.Fprintf(s.err, "No member of that name is known now. If it is misspelt: shoal peer unban %s\n", peer)
		return err
	})
}

type strategyCmd struct {
	Show strategyShowCmd `cmd:"" help:"Show the recrawl strategy in force."`
	Set  strategySetCmd  `cmd:"" help:"Go on with another strategy or other parameters; kept over a restart."`
	Try  strategyTryCmd  `cmd:"" help:"Show what another strategy would change, on a copy."`
}

type strategyShowCmd struct {
	target
	JSON bool `name:"json" help:"As JSON."`
}

func (c *strategyShowCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		if c.JSON {
			return a.Do(ctx, http.MethodGet, "/strategy", nil, nil, s.out)
		}
		var i desk.Strategy
		if err := a.Do(ctx, http.MethodGet, "/strategy", nil, nil, &i); err != nil {
			return err
		}
		return showStrategy(s.out, i)
	})
}

func showStrategy(out io.Writer, i desk.Strategy) error {
	fmt.Fprintf(out, "strategy   %s\n", i.Name)
	most := "at any multiple of its change rate"
	if i.Limits.Cap > 0 {
		most = fmt.Sprintf("at most %.4g times its change rate", i.Limits.Cap)
	}
	fmt.Fprintf(out, "limits     a channel is recrawled %s, never within %s\n", most, plain.Span(max(i.Limits.MinInterval, i.Tick).Duration()))
	fmt.Fprintf(out, "weights    %s\n", i.Limits.Weights)
	if i.Params != (recrawl.Params{}) {
		text, err := paramsText(i.Params)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "parameters %s\n", text)
	}
	for g, n := range i.GroupSizes {
		every := ""
		if g < len(i.Intervals) {
			every = "every " + plain.Span(i.Intervals[g].Duration())
		}
		fmt.Fprintf(out, "group %d    %d channels %s\n", g, n, every)
	}
	showSequencers(out, i.Sequencers)
	if i.Plan != nil {
		showPlan(out, i.Plan)
	}
	_, err := fmt.Fprintf(out, "choose from %s\n", strings.Join(i.Names, ", "))
	return err
}

// paramsText are the parameters that were set, as an operator writes them.
func paramsText(p recrawl.Params) (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return "", err
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; v != 0.0 && v != "" && v != false {
			set = append(set, fmt.Sprintf("%s=%v", strings.ToLower(name), v))
		}
	}
	return strings.Join(set, " "), nil
}

// showSequencers tells where tasks come from: what waits, what was taken, and by whose share new and old are mixed.
func showSequencers(out io.Writer, q manager.Sequencers) {
	mix := "in the strategy's order, none before the other for being new"
	if q.By != "order" {
		who := map[string]string{"operator": "as an operator set it", "strategy": "as the strategy says"}[q.By]
		mix = fmt.Sprintf("%.4g%% new while both wait, %s", 100*q.Ratio, who)
	}
	fmt.Fprintf(out, "at once    %d wait, %d taken since the start\n", q.NowWaits, q.NowTaken)
	fmt.Fprintf(out, "new        %d wait, %d taken\n", q.NewWaits, q.NewTaken)
	fmt.Fprintf(out, "old        %d wait, %d taken\n", q.OldWaits, q.OldTaken)
	fmt.Fprintf(out, "mixed      %s\n", mix)
}

// showPlan tells what a strategy has planned, and from what.
func showPlan(out io.Writer, p *desk.Plan) {
	fmt.Fprintf(out, "plan       made %s for %d channels, the next one %s; capacity measured: %.4g busy threads\n", when(p.MadeAt), p.Channels, when(p.NextAt), p.Capacity)
	if p.Periods == 0 { // optimal
		fmt.Fprintf(out, "expects    freshness %.4f by weight, %.4f a channel, from %.4g updates a tick; %d channels get all that the cap allows\n", p.Freshness, p.Plain, p.Updates, p.AtCap)
		fmt.Fprintf(out, "timetable  moves a crawl by %.3g ticks on average\n", p.Moves)
		var models []string
		for _, k := range slices.Sorted(maps.Keys(p.Models)) {
			models = append(models, fmt.Sprintf("%d %s", p.Models[k], k))
		}
		fmt.Fprintf(out, "models     %s\n", strings.Join(models, ", "))
		return
	}
	fmt.Fprintf(out, "cycle      %d, by the paper's Strategy %d, period %d of %d, gap to the bound %.2f%%\n", p.Cycle, p.Strategy, p.Period, p.Periods, 100*p.Gap)
	fmt.Fprintf(out, "period     %d known channels and %d new ones: %.4g%% new\n", p.Old, p.New, 100*p.Ratio)
	for k, b := range p.Buckets {
		fmt.Fprintf(out, "bucket %-3d %.3g%% of its channels in this period\n", b, 100*p.Shares[k])
	}
}

// strategyArgs name a strategy and its parameters.
type strategyArgs struct {
	Name     string   `arg:"" optional:"" help:"Strategy: ${strategies}. By default the one in force."`
	Params   []string `arg:"" optional:"" name:"param" help:"Parameters, as delta=.4 or targetwait=60."`
	NewShare *float64 `help:"Share of room that channels never crawled get while others wait too, below 1; 0: as the strategy says. By default it stays as it is." placeholder:"SHARE"`
}

func (c *strategyArgs) choice() (desk.StrategyAsk, error) {
	out := desk.StrategyAsk{Name: c.Name, NewShare: c.NewShare}
	m := map[string]json.RawMessage{}
	for _, p := range c.Params {
		name, v, ok := strings.Cut(p, "=")
		if !ok || v == "" {
			return out, fmt.Errorf("parameter %q: write name=value, as delta=.4", p)
		}
		if strings.HasPrefix(v, ".") {
			v = "0" + v
		}
		if !json.Valid([]byte(v)) {
			b, err := json.Marshal(v)
			if err != nil {
				return out, err
			}
			v = string(b)
		}
		name = strings.ToLower(name)
		if _, ok := m[name]; ok {
			return out, fmt.Errorf("parameter %s is there twice", name)
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil && f == 0 {
			return out, fmt.Errorf("parameter %s: 0 would stand for its default; leave it out", name)
		}
		m[name] = json.RawMessage(v)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return out, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out.Params); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return out, fmt.Errorf("no parameter %s: want one of %s", name, strings.Join(paramNames(), ", "))
		}
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			want := map[reflect.Kind]string{reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Bool: "true or false", reflect.String: "a word"}[kind.Type.Kind()]
			return out, fmt.Errorf("parameter %s: want %s", strings.ToLower(kind.Field), want)
		}
		return out, fmt.Errorf("parameters: %w", err)
	}
	return out, nil
}

// paramNames are what may be set.
func paramNames() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[recrawl.Params]()) {
		names = append(names, strings.ToLower(f.Name))
	}
	slices.Sort(names)
	return names
}

type strategySetCmd struct {
	target
	strategyArgs
	Cap         *float64       `help:"A channel is recrawled at most so many times its change rate, whatever the strategy; 0: no limit; 2 unless it was set. By default it stays as it is." placeholder:"X"`
	Weights     string         `enum:"pages,equal,rank," default:"" help:"What a channel counts for the strategies that look at weights (price, optimal, cycle, lambda), times its own --weight: by its pages, all equal, or by the rank of its group (16, 8, 4, 2, 1); pages unless it was set. By default it stays as it is." placeholder:"HOW"`
	MinInterval *time.Duration `help:"And never sooner than this after its last task; 10m unless it was set (2s in the pond). By default it stays as it is." placeholder:"TIME"`
}

func (c *strategySetCmd) Run(ctx context.Context, s streams) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	if c.Cap != nil && (math.IsNaN(*c.Cap) || math.IsInf(*c.Cap, 0)) {
		return fmt.Errorf("--cap: want 0 (no limit) or a factor of the change rate, not %v", *c.Cap)
	}
	if c.Cap != nil || c.MinInterval != nil || c.Weights != "" {
		choice.Limits = &desk.LimitsAsk{Cap: c.Cap, Weights: c.Weights}
		if c.MinInterval != nil {
			s := desk.Seconds(*c.MinInterval)
			choice.Limits.MinInterval = &s
		}
	}
	if c.Name == "" && c.NewShare == nil && choice.Limits == nil {
		return errors.New("name a strategy, or give --new-share, --cap, --min-interval or --weights")
	}
	return c.with(ctx, true, func(a *api.Client) error {
		var i desk.Strategy
		if err := a.Do(ctx, http.MethodPut, "/strategy", nil, choice, &i); err != nil {
			return err
		}
		return showStrategy(s.out, i)
	})
}

type strategyTryCmd struct {
	target
	strategyArgs
	JSON bool `name:"json" help:"As JSON."`
}

func (c *strategyTryCmd) Run(ctx context.Context, s streams) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	if c.Name == "" && c.NewShare == nil {
		return errors.New("name a strategy, or give --new-share")
	}
	return c.with(ctx, true, func(a *api.Client) error {
		if c.JSON {
			return a.Do(ctx, http.MethodPost, "/strategy/try", nil, choice, s.out)
		}
		var t desk.Trial
		if err := a.Do(ctx, http.MethodPost, "/strategy/try", nil, choice, &t); err != nil {
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintf(w, "in the next %s\t%s (now)\t%s\n", plain.Span(t.Ahead.Duration()), t.Now.Strategy, t.Then.Strategy)
		fmt.Fprintf(w, "tasks\t%d\t%d\n", t.Now.Tasks, t.Then.Tasks)
		fmt.Fprintf(w, "  of channels never crawled\t%d\t%d\n", t.Now.New, t.Then.New)
		for g := range max(len(t.Now.ByGroup), len(t.Then.ByGroup)) {
			fmt.Fprintf(w, "  of group %d\t%s\t%s\n", g, at(t.Now.ByGroup, g), at(t.Then.ByGroup, g))
		}
		fmt.Fprintf(w, "fresh at its end\t%.1f%%\t%.1f%%\n", 100*t.Now.Freshness, 100*t.Then.Freshness)
		if err := w.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.err, "From %d of %d channels, with room for %.1f tasks a tick. Nothing was changed.\n", t.Channels, t.Of, t.Capacity)
		return err
	})
}

func at(v []int, i int) string {
	if i < len(v) {
		return fmt.Sprint(v[i])
	}
	return "-"
}

type feedCmd struct {
	target
	Since  string `help:"Go on after this cursor; by default from the beginning." placeholder:"CURSOR" xor:"since"`
	Cursor string `help:"Keep the cursor in this file." type:"path" placeholder:"FILE" xor:"since"`
	Follow bool   `short:"f" help:"Wait for more until interrupted."`
	Text   bool   `help:"With main text and links."`
	Limit  int    `help:"At most so many a request." default:"1000" placeholder:"N"`
}

// Run prints changes as JSON lines. The cursor is kept after what was printed: an indexer that is interrupted sees some again, never too few.
func (c *feedCmd) Run(ctx context.Context, s streams) error {
	if err := atLeast("--limit", c.Limit, 1); err != nil {
		return err
	}
	cursor := c.Since
	if c.Cursor != "" {
		b, err := os.ReadFile(c.Cursor)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the cursor: %w", err)
		}
		cursor = strings.TrimSpace(string(b))
	}
	return c.with(ctx, false, func(a *api.Client) error {
		for {
			q := url.Values{"cursor": {cursor}, "limit": {fmt.Sprint(c.Limit)}}
			if c.Text {
				q.Set("text", "1")
			}
			if c.Follow {
				q.Set("wait", "50s")
			}
			r, err := a.Open(ctx, http.MethodGet, "/archive/changes", q, nil)
			if err != nil {
				return err
			}
			n, err := io.Copy(s.out, r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			cursor = r.Header.Get(archive.CursorHeader)
			if c.Cursor != "" && n > 0 {
				if err := member.WriteFile(c.Cursor, []byte(cursor+"\n")); err != nil {
					return fmt.Errorf("keep the cursor %s: %w", cursor, err)
				}
			}
			if n == 0 && !c.Follow {
				_, err := fmt.Fprintf(s.err, "next: --since %s\n", cursor)
				return err
			}
		}
	})
}
