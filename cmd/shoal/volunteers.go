package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type peerCmd struct {
	List     peerListCmd     `cmd:"" help:"List the members that the manager knows of."`
	Conduct  peerConductCmd  `cmd:"" help:"List members that waste tasks, or send what is not so."`
	Invite   peerInviteCmd   `cmd:"" help:"Print a join string."`
	Ban      peerBanCmd      `cmd:"" help:"Refuse a peer or an account from now on."`
	Unban    peerUnbanCmd    `cmd:"" help:"Admit a banned peer or account again."`
	Evidence peerEvidenceCmd `cmd:"" help:"Show what is held against a peer."`
	Uphold   peerUpholdCmd   `cmd:"" help:"Make a suspension final."`
	Pardon   peerPardonCmd   `cmd:"" help:"Take a suspension back, with all that followed from it."`
	Vouch    peerVouchCmd    `cmd:"" help:"Believe a peer of your own, as if its probation were over."`
	Purge    peerPurgeCmd    `cmd:"" help:"Take back all that a peer or an account has delivered."`
}

type peerListCmd struct {
	target
	Banned bool `help:"List those that are refused instead: the banned and the suspended."`
}

func (c *peerListCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		if c.Banned {
			return listRefused(ctx, a, s)
		}
		var peers []desk.Peer
		if err := a.Do(ctx, http.MethodGet, "/peers", nil, nil, &peers); err != nil {
			return err
		}
		if len(peers) == 0 {
			fmt.Fprintln(s.err, "No peer has joined. Give volunteers a join string: shoal peer invite")
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "PEER\tACCOUNT\tRUNNING\tQUEUED\tPREDICTED RTT\tHEARD OF")
		for _, p := range peers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f ms\t%s\n", p.ID, accountWord(p), p.Running, p.Queued, p.RTTMS, when(p.Seen))
		}
		var banned api.Banned
		if err := a.Quiet().Do(ctx, http.MethodGet, "/peers/banned", nil, nil, &banned); err != nil {
			return err
		}
		tellRefused(w, banned.Refused)
		return w.Flush()
	})
}

// listRefused lists the members that are refused.
func listRefused(ctx context.Context, a *api.Client, s streams) error {
	var banned api.Banned
	if err := a.Do(ctx, http.MethodGet, "/peers/banned", nil, nil, &banned); err != nil {
		return err
	}
	if len(banned.Refused) == 0 {
		fmt.Fprintln(s.err, "No peer and no account is refused.")
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	tellRefused(w, banned.Refused)
	return w.Flush()
}

func tellRefused(w io.Writer, refused []desk.Refused) {
	for _, r := range refused {
		why := r.Standing
		if r.Deliverer != "" {
			why += " for what it delivered: shoal peer evidence " + r.Deliverer
		}
		fmt.Fprintf(w, "%s\t%s\n", plain.Printable(r.Name), why)
	}
}

type peerConductCmd struct {
	target
}

func (c *peerConductCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var out api.Conduct
		if err := a.Do(ctx, http.MethodGet, "/peers/conduct", nil, nil, &out); err != nil {
			return err
		}
		for _, m := range out.Members {
			faults := make([]string, 0, len(m.Faults))
			for _, f := range m.Faults {
				faults = append(faults, string(f))
			}
			who := m.Name()
			if m.Peer != "" && m.Account != "" && m.Account != m.Peer {
				who += " of account " + m.Account
			}
			fmt.Fprintf(s.out, "%s: %s\n  %s\n  %s\n", plain.Printable(who), strings.Join(faults, ", "), plain.Printable(m.Says), plain.Printable(m.Mend))
		}
		switch {
		case out.More > 0:
			fmt.Fprintf(s.err, "%d more are not listed.\n", out.More)
		case len(out.Members) == 0:
			fmt.Fprintln(s.err, "No member stands out.")
		}
		return nil
	})
}

// accountWord is a peer's account as the list shows it.
func accountWord(p desk.Peer) string {
	switch p.Account {
	case "":
		return "-"
	case p.ID:
		return "own"
	}
	return p.Account
}

type peerInviteCmd struct {
	target
	Uses int64 `help:"For so many peers, 100000 at most." default:"1" placeholder:"N"`
}

func (c *peerInviteCmd) Run(ctx context.Context, s streams) error {
	if c.Uses < 1 || c.Uses > desk.MaxUses {
		return fmt.Errorf("--uses %d: want 1 to %d", c.Uses, desk.MaxUses)
	}
	return c.with(ctx, true, func(a *api.Client) error {
		var out api.Invited
		if err := a.Do(ctx, http.MethodPost, "/peers/invite", nil, api.Invite{Uses: uint32(c.Uses)}, &out); err != nil {
			return err
		}
		if out.Needs != "" {
			fmt.Fprintln(s.err, out.Needs)
		}
		_, err := fmt.Fprintln(s.out, out.Join)
		return err
	})
}

type peerBanCmd struct {
	target
	Peer    string `arg:"" help:"Peer id or account."`
	Unknown bool   `help:"Also if no peer or account of that name is known."`
}

func (c *peerBanCmd) Run(ctx context.Context, s streams) error {
	return ban(ctx, &c.target, s, api.Ban{Peer: c.Peer, Banned: true, Unknown: c.Unknown}, "is refused from now on; its connections are closed, and what it had claimed is handed out again when its lease would have ended")
}

type peerUnbanCmd struct {
	target
	Peer string `arg:"" help:"Peer id or account."`
}

func (c *peerUnbanCmd) Run(ctx context.Context, s streams) error {
	return ban(ctx, &c.target, s, api.Ban{Peer: c.Peer}, "may join again")
}

func ban(ctx context.Context, t *target, s streams, ask api.Ban, done string) error {
	return t.with(ctx, true, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, "/peers/ban", nil, ask, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintln(s.out, plain.Printable(ask.Peer), done)
		return err
	})
}

type peerPurgeCmd struct {
	target
	Peer string `arg:"" help:"Peer id, account, or deliverer as captures name it (d-...)."`
	Yes  bool   `help:"Do it. It cannot be undone."`
}

func (c *peerPurgeCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		var out desk.PurgedPeer
		if !c.Yes {
			if err := a.Do(ctx, http.MethodPost, "/peers/purge", nil, api.PurgePeer{Peer: c.Peer, Dry: true}, &out); err != nil {
				return err
			}
			return fmt.Errorf("this would take back %s of %s that %s has delivered, and cannot be undone: add --yes to do it. The pages are then crawled first",
				plain.Count(out.Captures, "version"), plain.Count(out.Pages, "page"), c.Peer)
		}
		done := showPurge(ctx, a.Quiet(), s.err)
		err := a.Do(ctx, http.MethodPost, "/peers/purge", nil, api.PurgePeer{Peer: c.Peer}, &out)
		done()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s: %s of %s taken back; %s crawled first. %s\n",
			c.Peer, plain.Count(out.Captures, "version"), plain.Count(out.Pages, "page"), plain.Count(out.Asked, "channel"), afterPurge(&out))
		return err
	})
}

// afterPurge says whether more may come from where that came from which was taken back.
func afterPurge(p *desk.PurgedPeer) string {
	switch {
	case p.Standing == desk.AllBanned:
		return "It is banned, and delivers nothing more."
	case p.Standing == desk.NotBanned:
		return "It is not banned, and may deliver more. To refuse it: shoal peer ban " + plain.Printable(p.Ban)
	case p.Ban != "":
		return "If it is not banned, it may deliver more. To refuse it, start the manager, then: shoal peer ban " + plain.Printable(p.Ban)
	}
	return "Which member it was is not known any more."
}

// showPurge shows on a terminal how far a purge is, until done is called.
func showPurge(ctx context.Context, a *api.Client, w io.Writer) (done func()) {
	if !isTerminal(w) {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(purgeShown)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-t.C:
			}
			var out api.Purging
			if a.Do(ctx, http.MethodGet, "/peers/purge", nil, nil, &out) == nil && out.Purge != nil {
				fmt.Fprintf(w, "\r\x1b[K%d versions looked at, %d of them, of %d pages, taken back", out.Purge.Looked, out.Purge.Captures, out.Purge.Pages)
			} else if work := atWork(a)(ctx); work != nil { // for which it waits
				fmt.Fprintf(w, "\r\x1b[K%s", work)
			}
		}
	}()
	return func() { stop(); <-ended }
}

const purgeShown = time.Second // between two looks at a purge
