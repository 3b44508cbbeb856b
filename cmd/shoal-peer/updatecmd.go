package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"shoal/internal/plain"
	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/service"
	"shoal/peer/words"
)

// updateTold is what GET /v1/update answers.
type updateTold struct {
	State   string             `json:"state"`
	Says    string             `json:"says"`    // the same as a sentence, for people
	Setting string             `json:"setting"` // auto, ask, off, package or built
	Version string             `json:"version"` // that runs
	Offered string             `json:"offered,omitempty"`
	Notes   string             `json:"notes,omitempty"`
	Here    string             `json:"here,omitempty"`   // is fetched and checked
	Before  string             `json:"before,omitempty"` // of a version on probation, the one before it
	Have    int64              `json:"have_bytes,omitempty"`
	Length  int64              `json:"length_bytes,omitempty"`
	Asked   time.Time          `json:"asked,omitzero"` // when the company's server last answered
	Refused []programs.Refusal `json:"refused,omitempty"`
	Last    string             `json:"last,omitempty"` // what happened last
	LastAt  time.Time          `json:"last_at,omitzero"`
	Mine    bool               `json:"can_take"` // taking or refusing now does something
	level   string
	text    words.Text
}

// told says how updates stand.
func (u *updater) told(lang string) updateTold {
	t := updateTold{Setting: u.setting(), Version: u.own, level: levelOK}
	st, err := u.folder.Load()
	t.Refused, t.Last, t.LastAt = st.Refused, st.Last, st.LastAt
	u.mu.Lock()
	t.Offered, t.Notes, t.Have, t.Length, t.Asked = u.offer.Version, u.notes, u.have, u.length, u.asked
	failed, in, take := u.failed, u.in, u.take
	u.mu.Unlock()
	if err != nil {
		failed = err
	}
	if st.Next != nil {
		t.Here, t.Notes = st.Next.Version, st.Next.Notes
	}
	newer := release.Newer(t.Offered, t.Version)
	r, refused := st.Refuses(t.Offered)
	stuck := st.Trial.Stuck() && (refused || !release.Newer(t.Offered, st.Trial.Version)) // else the newer one is what there is to say
	t.Mine = (t.Setting == updateAuto || t.Setting == updateAsk || t.Setting == updateOff) && (newer && (st.Trial == nil || st.Trial.Stuck()) && !(refused && r.Fell) || stuck)
	say := func(state, level string, args ...any) {
		t.State, t.level, t.text = state, level, words.T("update."+state, args...)
	}
	switch {
	case t.Setting == updateBy:
		say("package", levelOK, service.PackagedBy(cmp.Or(os.Getenv(envInstalled), installedPath())))
	case t.Setting == updateBuilt:
		say("built", levelOK, t.Version)
	case st.Trial != nil && st.Trial.Version == t.Version:
		t.Before = st.Trial.From
		say("trial", levelNote, t.Version, st.Trial.From)
	case stuck:
		say("stuck", levelBad, st.Trial.Version, st.Trial.Why)
	case st.Trial != nil && !st.Trial.Stuck(): // it was not started yet
		say("ready", levelNote, st.Trial.Version)
	case failed != nil:
		say("failed", levelBad, plain.Error(failed))
	case t.Length > 0:
		say("fetching", levelNote, t.Offered, 100*t.Have/t.Length)
	case newer && refused && r.Fell:
		say("fell", levelNote, r.Version, r.Why)
	case newer && refused:
		say("refused", levelNote, r.Version)
	case t.Setting == updateOff && newer && !take:
		say("offnewer", levelNote, t.Offered)
	case t.Setting == updateOff:
		say("off", levelNote)
	case t.Here != "" && (t.Setting == updateAuto || take):
		say("ready", levelNote, t.Here)
	case t.Setting == updateAsk && newer && in:
		say("ask", levelNote, t.Offered)
	case t.Asked.IsZero():
		say("unasked", levelNote)
	default:
		say("current", levelOK, t.Version)
	}
	t.Says = t.text.In(lang)
	return t
}

func (s *station) getUpdate(w http.ResponseWriter, r *http.Request) {
	answer(w, s.updates.told(lang(r)))
}

// postUpdate carries out an order about updates. It works without a network too, as far as there is something to do.
func (s *station) postUpdate(w http.ResponseWriter, args map[string]string) {
	if err := s.updates.order(args); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

type updateCmd struct {
	remote
	What string `arg:"" optional:"" enum:"state,take,refuse,look" default:"state" help:"state: show how updates stand. take: run the offered version as soon as it is fetched. refuse: never take it. look: ask the company's server at once."`
}

// Run shows how updates stand, or takes or refuses one.
func (c *updateCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if c.What != "state" {
		if err := cl.Do(ctx, "update", map[string]string{"what": c.What}); err != nil {
			return err
		}
	}
	var raw json.RawMessage
	if err := cl.Get(ctx, "/v1/update", &raw); err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	var t updateTold
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	switch c.What {
	case "take":
		fmt.Fprintln(s.out, "The new version takes over as soon as it is here and running tasks have ended.")
	case "refuse":
		fmt.Fprintln(s.out, "Refused; a later version is offered again.")
	case "look":
		fmt.Fprintln(s.out, "The company's server is being asked.")
	}
	return printUpdate(s.out, &t)
}

func printUpdate(out io.Writer, t *updateTold) error {
	_, err := fmt.Fprintf(out, "update    %s\n", t.Says)
	if t.Notes != "" && t.Mine {
		_, err = fmt.Fprintf(out, "notes     %s\n", plain.Printable(t.Notes))
	}
	if t.Last != "" {
		_, err = fmt.Fprintf(out, "last      %s: %s\n", t.LastAt.Local().Format(time.DateTime), t.Last)
	}
	for _, r := range t.Refused {
		_, err = fmt.Fprintf(out, "never     %s: it %s\n", r.Version, r.Why)
	}
	return err
}
