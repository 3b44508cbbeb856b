package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
)

type objectCmd struct {
	remote
	only
	Case string   `arg:"" help:"Number of the case, as status lists it."`
	Text []string `arg:"" help:"What is wrong with it, for the people of the company."`
}

func (c *objectCmd) Run(ctx context.Context, s streams, top *cli) error {
	text := strings.Join(c.Text, " ")
	if _, err := peer.Objection(c.Case, text); err != nil { // also while no peer runs
		return err
	}
	return c.do(ctx, s, top, "object", c.args(map[string]string{"case": c.Case, "text": text}), "The company sees your objection at case "+plain.Printable(c.Case)+".")
}

// object takes an objection to the company's server.
func (s *station) object(w http.ResponseWriter, r *http.Request, p *program, args map[string]string) {
	if n := of(w, p, args["network"]); n != nil {
		asked(w, n.agent.Object(r.Context(), args["case"], args["text"]), peer.ErrObject)
	}
}

// printStanding prints how far the company's server believes the peer, and what it holds against it.
func printStanding(w io.Writer, st *peer.Standing) {
	if st == nil || st.Standing == "unknown" && len(st.Held) == 0 {
		return
	}
	fmt.Fprintf(w, "standing  %s\n", standingWords(st))
	if len(st.Held) == 0 {
		return
	}
	added := 0.0
	for _, h := range st.Held {
		added += h.Amount
	}
	fallen := ""
	if st.Score < added-.05 {
		fallen = ", which has fallen since"
	}
	follows := fmt.Sprintf("a peer is suspended at %.1f", st.SuspendAt)
	if !st.Enforced {
		follows = "nothing follows from it in this network now"
	}
	fmt.Fprintf(w, "held      against it: %s, score %.1f%s; %s\n", plain.Count(len(st.Held)+st.More, "case"), st.Score, fallen, follows)
	for _, h := range st.Held {
		fmt.Fprintf(w, "  %s  %s  %s: %s (added %.1f then)\n", h.Case, h.Ruled.Local().Format(time.DateTime), plain.Printable(h.URL), plain.Printable(h.Reason), h.Amount)
		if h.Objection != "" {
			fmt.Fprintf(w, "    you object: %s\n", plain.Printable(h.Objection))
		}
	}
	if st.More > 0 {
		fmt.Fprintf(w, "          %s not listed\n", plain.Count(st.More, "older case"))
	}
	if slices.ContainsFunc(st.Held, func(h peer.Held) bool { return h.Objection == "" }) {
		fmt.Fprintf(w, "          If a case is wrong, say so once: shoal-peer object CASE TEXT\n")
	}
}

// standingWords says how far the server believes the peer, and what follows.
func standingWords(st *peer.Standing) string {
	works := st.Standing == "newcomer" || st.Standing == "established"
	switch {
	case works && st.Credit != nil && st.Credit.Withheld:
		return "no tasks: this account is banned, or another computer of it is suspended for what it delivered, until people of the company have looked at that"
	case works && st.Waits:
		return "a newcomer without tasks for now: others in its part of the Internet, as behind the same router or provider, have the places there that are for newcomers; it has its turn when one of them is established, or has been away for an hour or two"
	case works && st.Suspect && st.Enforced:
		return "in doubt, by its score: more of what this peer delivers is checked, and shown only once others saw the same"
	case works && st.Suspect:
		return "in doubt, by its score: more of what this peer delivers is checked"
	}
	switch st.Standing {
	case "newcomer":
		return "a newcomer: what this peer delivers is checked more often than others' until enough of it was right"
	case "established":
		return "believed, as established peers are"
	case "suspended":
		return "suspended for what it delivered: it gets no tasks until people of the company have looked at the cases below"
	case "banned":
		return "banned for what it delivered"
	case "unknown":
		return "nothing is known of it at this server yet"
	}
	return plain.Printable(st.Standing)
}
