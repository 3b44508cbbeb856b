package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type trustCmd struct {
	Show trustShowCmd `cmd:"" help:"Show how far what peers deliver is believed, and by which rules."`
	Set  trustSetCmd  `cmd:"" help:"Change rules, and keep them over a restart. A rule that is not named stays as it is."`
}

type trustShowCmd struct {
	target
	Peers    bool `help:"List the peers, those first against whom most is held." xor:"list"`
	Channels bool `help:"List the channels on which peers lost cases, and what follows from that." xor:"list"`
}

func (c *trustShowCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		if c.Peers {
			var out api.TrustPeers
			if err := a.Do(ctx, http.MethodGet, "/trust/peers", nil, nil, &out); err != nil {
				return err
			}
			return showTrusted(s, out)
		}
		var t desk.Trust
		if err := a.Do(ctx, http.MethodGet, "/trust", nil, nil, &t); err != nil {
			return err
		}
		if c.Channels {
			return showDoubted(s, &t)
		}
		return showTrust(s.out, &t)
	})
}

// showDoubted lists channels on which peers lost cases.
func showDoubted(s streams, t *desk.Trust) error {
	if len(t.Doubted) == 0 {
		_, err := fmt.Fprintln(s.out, "No channel is on watch, and none has pages that others are to see.")
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CHANNEL\tHOST\tON WATCH UNTIL\tCRAWLS BY OTHERS")
	for _, d := range t.Doubted {
		until := ""
		if !d.Watched.IsZero() {
			until = d.Watched.Format(time.DateOnly)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\n", d.ID, plain.Printable(d.Host), until, d.Others)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if t.DoubtedMore > 0 {
		fmt.Fprintf(s.err, "%d more are not listed.\n", t.DoubtedMore)
	}
	return nil
}

type trustSetCmd struct {
	target
	Enforce          bool     `help:"Let scores count: peers are suspended, deliveries held back, newcomers kept few." xor:"mode"`
	Shadow           bool     `help:"Let scores run, and nothing follow from them." xor:"mode"`
	SuspendAt        *float64 `help:"Score at which a peer is suspended." placeholder:"T"`
	Newcomers        *float64 `help:"Share of tasks that all newcomers together may have while established peers are there; 0: none is ever tried." placeholder:"SHARE"`
	Beside           *float64 `help:"Share of pages that are fetched again beside those of each task." placeholder:"SHARE"`
	SuspectShare     *float64 `help:"Share of a suspect's pages that are fetched again." placeholder:"SHARE"`
	AuditsATask      *int     `help:"Pages of each task that are fetched again." placeholder:"N"`
	AuditsOfNewcomer *int     `help:"Pages of each newcomer's task that are fetched again." placeholder:"N"`
}

func (c *trustSetCmd) Run(ctx context.Context, s streams) error {
	ask := desk.TrustAsk{T: c.SuspendAt, Newcomers: c.Newcomers, Beside: c.Beside, SuspectShare: c.SuspectShare, PerTask: c.AuditsATask, PerNew: c.AuditsOfNewcomer}
	if c.Enforce || c.Shadow {
		ask.Enforce = &c.Enforce
	}
	for flag, x := range map[string]*float64{"suspend-at": c.SuspendAt, "newcomers": c.Newcomers, "beside": c.Beside, "suspect-share": c.SuspectShare} {
		if x != nil && (math.IsNaN(*x) || math.IsInf(*x, 0)) { // JSON has no such numbers
			return fmt.Errorf("--%s %v: want a number; shoal trust show has the rules as they are", flag, *x)
		}
	}
	if ask == (desk.TrustAsk{}) {
		return errors.New("nothing to change: name --enforce or --shadow, --suspend-at T, or a share; shoal trust show has the rules as they are")
	}
	return c.with(ctx, true, func(a *api.Client) error {
		var t desk.Trust
		if err := a.Do(ctx, http.MethodPut, "/trust", nil, ask, &t); err != nil {
			return err
		}
		return showTrust(s.out, &t)
	})
}

func showTrust(out io.Writer, t *desk.Trust) error {
	mode := "shadow"
	if t.Enforce {
		mode = "enforced"
	}
	arbiter := "the manager itself decides what is contested"
	if !t.Arbiter {
		arbiter = "two more peers decide what is contested"
	}
	fmt.Fprintf(out, "rules      %s; a peer is suspended at a score of %.4g\n", mode, t.T)
	fmt.Fprintf(out, "arbiter    %s\n", arbiter)
	fmt.Fprintf(out, "audits     %s of each task, %d of a newcomer's, %s%% of pages beside, %s%% of a suspect's; newcomers have %s%% of tasks\n", plain.Count(t.PerTask, "page"), t.PerNew, plain.Number(100*t.Beside), plain.Number(100*t.SuspectShare), plain.Number(100*t.TrustRules.Newcomers))
	fmt.Fprintf(out, "peers      %d established, %s, %s, %d suspended, %d banned; banned by an operator: %d\n", t.Established, plain.Count(t.Newcomers, "newcomer"), plain.Count(t.Suspects, "suspect"), t.Suspended, t.Banned, t.Barred)
	fmt.Fprintf(out, "judged     since %s: %s of %d deliveries; %s asked for again (%.2f%% with what the arbiter fetched), %d seen, %d not in time, %d beyond the share\n",
		countedSince(t), plain.Count(int(t.Pages), "page"), t.Deliveries, plain.Count(int(t.Asked), "page"), 100*t.OfPagesShare, t.Answered, t.Late, t.Dropped)
	fmt.Fprintf(out, "contested  since then: %s; the arbiter fetched %d, and saw nothing of %d; %s; %s, %d in shadow\n", plain.Count(int(t.Contested), "page"), t.Arbitrated, t.Unseen, plain.Count(int(t.Charges), "charge"), plain.Count(int(t.Suspensions), "suspension"), t.WouldSuspend)
	fmt.Fprintf(out, "channels   %d on watch, %d with pages that others are to see\n", t.Watched, t.Seen)
	for _, line := range t.Says {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// countedSince says when the sums of what was judged begin.
func countedSince(t *desk.Trust) string {
	if t.CountedSince.IsZero() {
		return "the start of each manager"
	}
	return "the manager's start at " + when(t.CountedSince)
}

func showTrusted(s streams, peers api.TrustPeers) error {
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "DELIVERER\tPEER\tSTANDING\tFORGING\tLAZINESS\tCHECKING\tTASKS\tVALID CHECKS\tLOST")
	for _, p := range peers.Peers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\n", p.Deliverer, plain.Printable(p.Peer), p.Stands(), p.Forging, p.Laziness, p.Checking, p.Tasks, p.Checks, p.Lost)
	}
	if peers.More > 0 {
		fmt.Fprintf(s.err, "%d more are not listed.\n", peers.More)
	}
	return w.Flush()
}

type peerEvidenceCmd struct {
	target
	Peer string `arg:"" help:"Peer id, or deliverer as captures name it (d-...)."`
	Case string `help:"Show what each side of this case saw." placeholder:"NUMBER"`
}

func (c *peerEvidenceCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var e desk.PeerEvidence
		if err := a.Do(ctx, http.MethodGet, "/peers/evidence", url.Values{"peer": {c.Peer}}, nil, &e); err != nil {
			return err
		}
		if c.Case == "" {
			return showEvidence(s, &e)
		}
		var k desk.Case
		if err := a.Do(ctx, http.MethodGet, "/trust/case", url.Values{"number": {c.Case}}, nil, &k); err != nil {
			return err
		}
		if !slices.ContainsFunc(e.Cases, func(of desk.Case) bool { return of.Number == k.Number }) && k.Accused != e.Deliverer && k.Accuser != e.Deliverer {
			return fmt.Errorf("case %s is not one of %s, but of %s and %s: shoal peer evidence %s lists its cases", k.Number, c.Peer, k.Accused, k.Accuser, c.Peer)
		}
		return showCase(s.out, &k)
	})
}

func showEvidence(s streams, e *desk.PeerEvidence) error {
	if err := showTrusted(s, api.TrustPeers{Peers: []desk.PeerTrust{e.PeerTrust}}); err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tOPENED\tURL\tREASON\tACCUSED\tLOSER\tADDED\tSCORE\tOBJECTION")
	for _, k := range e.Cases {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t%s\n", k.Number, when(k.Opened), plain.Printable(k.URL), k.Reason, k.Accused, loser(&k), k.Amount, k.Score, objection(k.Objection))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if e.More > 0 {
		fmt.Fprintf(s.err, "%s, opened before these, not listed.\n", plain.Count(e.More, "more case"))
	}
	told := map[string]bool{}
	for _, k := range e.Cases {
		if told[k.Reason] || k.Means == "" {
			continue
		}
		told[k.Reason] = true
		if _, err := fmt.Fprintf(s.out, "%s: %s\n", k.Reason, k.Means); err != nil {
			return err
		}
	}
	for _, text := range e.Undone {
		if _, err := fmt.Fprintln(s.out, plain.Printable(text)); err != nil {
			return err
		}
	}
	if len(e.Others) > 0 {
		_, err := fmt.Fprintf(s.out, "No peer of its account gets tasks while these are suspended or banned: %s\n", strings.Join(e.Others, ", "))
		return err
	}
	return nil
}

// loser is who lost a case, as a list shows it.
func loser(k *desk.Case) string {
	if k.Pardoned.IsZero() {
		return k.Loser
	}
	return k.Loser + " (pardoned)"
}

// objection is the beginning of what the loser of a case says to it, as a list shows it.
func objection(says string) string {
	const shown = 40
	if text := []rune(plain.Printable(says)); len(text) > shown {
		return string(text[:shown]) + "..."
	}
	return plain.Printable(says)
}

// sideBytes is how much of a body is shown.
const sideBytes = 2000

func showCase(out io.Writer, k *desk.Case) error {
	fmt.Fprintf(out, "case %s: %s, %s\naccused %s", k.Number, plain.Printable(k.URL), k.Reason, k.Accused)
	if k.Accuser != "" {
		fmt.Fprintf(out, ", by %s", k.Accuser)
	}
	fmt.Fprintf(out, "\n%s\n", plain.Printable(strings.TrimSpace(k.Means+" "+k.Outcome())))
	if k.Objection != "" {
		fmt.Fprintf(out, "%s objects: %s\n", k.Loser, plain.Printable(k.Objection))
	}
	from := differs(k.Sides)
	for _, f := range k.Sides {
		by := f.By
		if by == "" {
			by = "the manager itself"
		}
		fmt.Fprintf(out, "\n--- %s, by %s, %s: status %d, %s", f.Side, by, when(f.Fetched), f.Status, plain.Count(f.Bytes, "byte"))
		if f.Final != "" {
			fmt.Fprintf(out, ", leads to %s", plain.Printable(f.Final))
		}
		if f.Error != "" {
			fmt.Fprintf(out, "; %s", plain.Printable(f.Error))
		}
		if _, err := fmt.Fprintf(out, "\n%s\n", excerpt(&f, from)); err != nil {
			return err
		}
	}
	return nil
}

// differs is from where on the sides of a case are shown: what is the same in all of them at the beginning is left out, if it is long.
func differs(sides []desk.CaseSide) (from int) {
	var first string
	for _, f := range sides {
		switch {
		case f.Body == "":
		case first == "":
			first, from = f.Body, len(f.Body)
		default:
			from = min(from, len(f.Body))
			for i := range from {
				if f.Body[i] != first[i] {
					from = i
					break
				}
			}
		}
	}
	if from <= sideBefore || from == len(first) {
		return 0
	}
	return from - sideBefore
}

// sideBefore is how much is shown before the first difference.
const sideBefore = 200

// excerpt is a part of what a side saw, with what is left out in words.
func excerpt(f *desk.CaseSide, from int) string {
	text, left := f.Body, f.Cut
	from = min(from, len(text))
	text = text[from:]
	if len(text) > sideBytes {
		text, left = text[:sideBytes], true
	}
	text = plain.Printable(strings.ToValidUTF8(text, ""))
	if from > 0 {
		text = fmt.Sprintf("[the first %s are the same on all sides] ", plain.Count(from, "byte")) + text
	}
	if left {
		text += " [there is more: --json and the page show more of it]"
	}
	return text
}

type peerUpholdCmd struct {
	target
	Peer string `arg:"" help:"Peer id, or deliverer as captures name it (d-...)."`
}

func (c *peerUpholdCmd) Run(ctx context.Context, s streams) error {
	return aboutPeer(ctx, &c.target, s, "/peers/uphold", c.Peer, "stays banned; what it alone has seen stays withdrawn, and can be removed: shoal peer purge "+plain.Printable(c.Peer))
}

type peerPardonCmd struct {
	target
	Peer string `arg:"" help:"Peer id, or deliverer as captures name it (d-...)."`
}

func (c *peerPardonCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var p desk.Pardoned
		if err := a.Do(ctx, http.MethodPost, "/peers/pardon", nil, api.OnePeer{Peer: c.Peer}, &p); err != nil {
			return err
		}
		_, err := fmt.Fprintln(s.out, plain.Printable(c.Peer), plain.Printable(p.Says()))
		return err
	})
}

type peerVouchCmd struct {
	target
	Peer string `arg:"" help:"Peer id, or deliverer as captures name it (d-...)."`
}

func (c *peerVouchCmd) Run(ctx context.Context, s streams) error {
	return aboutPeer(ctx, &c.target, s, "/peers/vouch", c.Peer, "is believed from now on as a peer past its probation")
}

// aboutPeer has the manager do something about one peer.
func aboutPeer(ctx context.Context, t *target, s streams, path, peer, done string) error {
	return t.with(ctx, true, func(a *api.Client) error {
		if err := a.Do(ctx, http.MethodPost, path, nil, api.OnePeer{Peer: peer}, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintln(s.out, plain.Printable(peer), done)
		return err
	})
}
