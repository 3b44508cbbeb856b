package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/api"
)

type creditCmd struct {
	Board creditBoardCmd `cmd:"" help:"List who brought the most pages that others saw alike, as the public board does."`
	Show  creditShowCmd  `cmd:"" help:"Show what an account was credited with, week by week."`
	Hide  creditHideCmd  `cmd:"" help:"Take an account's nickname and team off the public board."`
}

type creditBoardCmd struct {
	target
	Weeks int    `help:"Of the last so many weeks, this one included; 0: ever." default:"0" placeholder:"N"`
	N     int    `short:"n" help:"At most so many rows." default:"20"`
	Name  string `help:"Only the lines of this nickname or team, wherever they stand: to find whose it is." placeholder:"NAME"`
}

func (c *creditBoardCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var b manager.Board
		if err := a.Do(ctx, http.MethodGet, "/board", url.Values{"weeks": {strconv.Itoa(c.Weeks)}, "n": {strconv.Itoa(c.N)}, "name": {c.Name}}, nil, &b); err != nil {
			return err
		}
		if c.Name != "" && len(b.Names)+len(b.Teams) == 0 {
			_, err := fmt.Fprintf(s.err, "No volunteer and no team on the board is called %s.\n", plain.Printable(c.Name))
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tTEAM\tPAGES\tBYTES\tACCOUNT")
		for _, r := range b.Names {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", plain.Printable(r.Name), plain.Printable(r.Team), r.Pages, r.Bytes, plain.Printable(r.Account))
		}
		for _, r := range b.Teams {
			fmt.Fprintf(w, "\t%s\t%d\t%d\t\n", plain.Printable(r.Name), r.Pages, r.Bytes)
		}
		fmt.Fprintf(w, "(not on the board)\t\t%d\t%d\t\n", b.Others.Pages, b.Others.Bytes)
		return w.Flush()
	})
}

type creditShowCmd struct {
	target
	Account string `arg:"" help:"The account: an invite's, as shoal peer list names it; where that says own, the peer id."`
}

func (c *creditShowCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var k manager.AccountCredit
		if err := a.Do(ctx, http.MethodGet, "/credit", url.Values{"account": {c.Account}}, nil, &k); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "account   %s\n", plain.Printable(k.Account))
		if f := k.Profile; f != (manager.Profile{}) {
			where := "not on the board"
			if f.Public {
				where = "on the board"
			}
			fmt.Fprintf(s.out, "name      %s, team %s; %s\n", plain.Printable(f.Nickname), plain.Printable(f.Team), where)
		}
		if k.Withheld {
			fmt.Fprintln(s.out, "withheld  the account is banned, or a peer of it is suspended: nothing counts until that is undone")
		}
		fmt.Fprintf(s.out, "verified  %s, %s; rank %d of %d\n", plain.Count(int(k.Sum.Pages), "page"), plain.Count(int(k.Sum.Bytes), "byte"), k.Rank, k.Ranked)
		for _, w := range k.Weeks {
			fmt.Fprintf(s.out, "  %s  %s, %s\n", w.Name, plain.Count(int(w.Pages), "page"), plain.Count(int(w.Bytes), "byte"))
		}
		if k.Profile == (manager.Profile{}) && len(k.Weeks) == 0 && !k.Withheld {
			_, err := fmt.Fprintln(s.err, "Nothing was ever credited to that account. "+misspelt)
			return err
		}
		return nil
	})
}

// misspelt is said of an account of which nothing is known.
const misspelt = "If it is misspelt: shoal credit board --name NAME tells whose a nickname is; shoal peer list names the accounts; where it says own, ACCOUNT is the peer id."

type creditHideCmd struct {
	target
	Account string `arg:"" help:"The account: shoal credit board --name NAME tells whose a nickname is."`
}

func (c *creditHideCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var was manager.AccountCredit
		if err := a.Quiet().Do(ctx, http.MethodGet, "/credit", url.Values{"account": {c.Account}}, nil, &was); err != nil {
			return err
		}
		if err := a.Do(ctx, http.MethodPut, "/credit/profile", nil, api.ProfileAsk{Account: c.Account}, nil); err != nil {
			return err
		}
		if was.Profile == (manager.Profile{}) {
			_, err := fmt.Fprintf(s.err, "%s had neither nickname nor team, so nothing was changed. %s\n", plain.Printable(c.Account), misspelt)
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s is not on the board any more. Its volunteer can choose another nickname; shoal peer ban takes the account and its credit off for good.\n", plain.Printable(c.Account))
		return err
	})
}
