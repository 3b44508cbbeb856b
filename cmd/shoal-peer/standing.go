package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	if st == nil || st.Standing == "unknown" {
		return
	}
	what := map[string]string{
		"newcomer":    "a newcomer: what this peer delivers is checked more often than others' until enough of it was right",
		"established": "believed, as established peers are",
		"suspended":   "suspended for what it delivered: it gets no tasks until people of the company have looked at the cases below",
		"banned":      "banned for what it delivered",
	}[st.Standing]
	if what == "" {
		what = plain.Printable(st.Standing)
	}
	fmt.Fprintf(w, "standing  %s\n", what)
	if len(st.Held) == 0 {
		return
	}
	follows := fmt.Sprintf("a peer is suspended at %.1f", st.SuspendAt)
	if !st.Enforced {
		follows = "nothing follows from it in this network now"
	}
	fmt.Fprintf(w, "held      against it: %s, score %.1f; %s\n", plain.Count(len(st.Held)+st.More, "case"), st.Score, follows)
	for _, h := range st.Held {
		fmt.Fprintf(w, "  %s  %s  %s: %s (%.1f)\n", h.Case, h.Ruled.Local().Format(time.DateTime), plain.Printable(h.URL), plain.Printable(h.Reason), h.Amount)
		if h.Objection != "" {
			fmt.Fprintf(w, "    you object: %s\n", plain.Printable(h.Objection))
		}
	}
	fmt.Fprintf(w, "          If a case is wrong, say so once: shoal-peer object CASE TEXT\n")
}
