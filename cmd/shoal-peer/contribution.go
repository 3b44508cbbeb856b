package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"shoal/internal/plain"
	"shoal/peer"
)

// getStanding answers how far the company's server believes this peer, what it holds against it, and what it counts for its account. A person has asked.
func (s *station) getStanding(w http.ResponseWriter, r *http.Request) {
	p, err := s.live(r.Context())
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	n := of(w, p, r.URL.Query().Get("network"))
	if n == nil {
		return
	}
	st := n.agent.Standing(r.Context())
	if st == nil {
		fail(w, http.StatusServiceUnavailable, errors.New("the company's server cannot be asked now, and has not told anything yet; try again later"))
		return
	}
	answer(w, st)
}

// profile has the account shown otherwise on the network's board.
func (s *station) profile(w http.ResponseWriter, r *http.Request, p *program, args map[string]string) {
	if n := of(w, p, args["network"]); n != nil {
		asked(w, n.agent.SetProfile(r.Context(), peer.Profile{Nickname: strings.TrimSpace(args["nickname"]), Team: strings.TrimSpace(args["team"]), Public: args["public"] != ""}), peer.ErrProfile)
	}
}

// of returns the network that is named, or the only one. Where that is not clear it answers why, and returns nil.
func of(w http.ResponseWriter, p *program, name string) *network {
	n, err := p.find(name)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
	}
	return n
}

// asked answers what came of something that the server was asked for. refused is the error that says that it does not want to.
func asked(w http.ResponseWriter, err, refused error) {
	switch {
	case errors.Is(err, refused):
		fail(w, http.StatusBadRequest, err)
	case err != nil:
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("the company's server cannot be asked now; try again later: %w", err))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// getCertificate answers with a certificate of contribution, on which ?name= stands.
func (s *station) getCertificate(w http.ResponseWriter, r *http.Request) {
	p, err := s.live(r.Context())
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	n := of(w, p, r.URL.Query().Get("network"))
	if n == nil {
		return
	}
	text, err := n.agent.Certificate(r.Context(), strings.TrimSpace(r.URL.Query().Get("name")))
	if err != nil {
		asked(w, err, peer.ErrCertificate)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // a client that has gone needs no answer
}

type contributionCmd struct {
	remote
	only
}

// Run shows what the server counts for the account of this peer, and how far it believes the peer.
func (c *contributionCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if c.JSON {
		var raw json.RawMessage
		if err := cl.Get(ctx, "/v1/standing"+c.query(), &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	var st peer.Standing
	if err := cl.Get(ctx, "/v1/standing"+c.query(), &st); err != nil {
		return err
	}
	printStanding(s.out, &st)
	printCredit(s.out, st.Credit)
	return nil
}

// weeksShown is how many weeks a terminal shows.
const weeksShown = 12

// printCredit prints what the server counts.
func printCredit(w io.Writer, k *peer.Credit) {
	if k == nil {
		fmt.Fprintln(w, "verified  not told by the company's server")
		return
	}
	if k.Withheld {
		fmt.Fprintln(w, "verified  withheld: this account is banned or a peer of it suspended, and nothing counts until that is undone")
	} else {
		fmt.Fprintf(w, "verified  %s, %.1f MiB, which others saw too\n", plain.Count(int(k.Pages), "page"), mib(int64(k.Bytes)))
	}
	if k.Rank > 0 {
		fmt.Fprintf(w, "rank      %d of %d\n", k.Rank, k.Ranked)
	}
	f := k.Profile
	switch {
	case f.Public:
		fmt.Fprintf(w, "board     on it as %s%s\n", plain.Printable(f.Nickname), teamOf(f.Team))
	case f.Nickname != "" || f.Team != "":
		fmt.Fprintf(w, "board     not on it; kept: %s%s\n", plain.Printable(f.Nickname), teamOf(f.Team))
	default:
		fmt.Fprintln(w, "board     not on it: shoal-peer profile --nickname NAME --public")
	}
	if k.Board != "" {
		fmt.Fprintf(w, "          %s\n", plain.Printable(k.Board))
	}
	if k.TeamRank > 0 {
		fmt.Fprintf(w, "team      %s, %s, rank %d of %d\n", plain.Printable(f.Team), plain.Count(int(k.TeamPages), "page"), k.TeamRank, k.Teams)
	}
	for _, x := range k.Weeks[:min(len(k.Weeks), weeksShown)] {
		fmt.Fprintf(w, "  %s  %s, %.1f MiB\n", plain.Printable(x.Week), plain.Count(int(x.Pages), "page"), mib(int64(x.Bytes)))
	}
}

func teamOf(team string) string {
	if team == "" {
		return ""
	}
	return ", team " + plain.Printable(team)
}

type profileCmd struct {
	remote
	only
	Nickname *string `help:"Name on the network's public board." placeholder:"NAME"`
	Team     *string `help:"Team; an empty word is none." placeholder:"TEAM"`
	Public   bool    `help:"Show the nickname, the team and the verified pages on the board." xor:"shown"`
	Private  bool    `help:"Take them off the board." xor:"shown"`
}

// Run changes how the board shows the account. What is not named stays as it is.
func (c *profileCmd) Run(ctx context.Context, s streams, top *cli) error {
	if c.Nickname == nil && c.Team == nil && !c.Public && !c.Private {
		return errors.New("nothing to change: name --nickname, --team, --public or --private; shoal-peer contribution has the profile as it is")
	}
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	var st peer.Standing
	if err := cl.Get(ctx, "/v1/standing"+c.query(), &st); err != nil {
		return err
	}
	var f peer.Profile
	if st.Credit != nil {
		f = st.Credit.Profile
	}
	if c.Nickname != nil {
		f.Nickname = *c.Nickname
	}
	if c.Team != nil {
		f.Team = *c.Team
	}
	f.Public = (f.Public || c.Public) && !c.Private
	args, said := map[string]string{"nickname": f.Nickname, "team": f.Team}, "The board does not show this account."
	if f.Public {
		args["public"], said = "yes", fmt.Sprintf("The board shows %s%s.", plain.Printable(f.Nickname), teamOf(f.Team))
	}
	return c.do(ctx, s, top, "profile", c.args(args), said)
}

type certificateCmd struct {
	remote
	only
	Name string `help:"Name that is to stand on it, at most 40 characters; by default the nickname." placeholder:"NAME"`
	Out  string `help:"Write it to this new file instead of standard output." type:"path" placeholder:"FILE"`
}

// certificateTold is what certificate --json prints.
type certificateTold struct {
	Certificate string `json:"certificate"`
	File        string `json:"file,omitempty"`
}

// Run gets a certificate of contribution, which the network signs.
func (c *certificateCmd) Run(ctx context.Context, s streams, top *cli) (err error) {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		var st peer.Standing
		if err := cl.Get(ctx, "/v1/standing"+c.query(), &st); err != nil {
			return err
		}
		if st.Credit != nil {
			name = st.Credit.Profile.Nickname
		}
	}
	text, err := cl.Text(ctx, "/v1/certificate?"+url.Values{"name": {name}, "network": {c.Network}}.Encode())
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := writeNew(c.Out, text); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("write the certificate: %w; name another file, since an existing one is never overwritten", err)
			}
			return fmt.Errorf("write the certificate: %w", err)
		}
	}
	switch {
	case c.JSON:
		return json.NewEncoder(s.out).Encode(certificateTold{text, c.Out})
	case c.Out != "":
		_, err = fmt.Fprintf(s.out, "The certificate is in %s. Anybody can check it: shoal certificate verify FILE\n", plain.Printable(c.Out))
	default:
		_, err = fmt.Fprint(s.out, text)
	}
	return err
}

func writeNew(file, text string) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(text)
	return err
}
