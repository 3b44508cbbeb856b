package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/internal/version"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/page"
	"shoal/peer/words"
)

// This file is the control API: what the command line and the page ask. docs/decisions/0032-the-volunteers-page.md lists it.

// api returns the handler of the control API.
func (s *station) api() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/status", s.getStatus)
	m.HandleFunc("GET /v1/now", s.getNow)
	m.HandleFunc("POST /v1/do/{order}", s.postOrder)
	m.HandleFunc("GET /v1/log", s.getLog)
	m.HandleFunc("GET /v1/sites", s.getSites)
	m.HandleFunc("GET /v1/history", s.getHistory)
	m.HandleFunc("GET /v1/settings", s.getSettings)
	m.HandleFunc("PUT /v1/settings", s.putSettings)
	m.HandleFunc("POST /v1/settings/try", s.trySettings)
	m.HandleFunc("POST /v1/join", s.postJoin)
	m.HandleFunc("GET /v1/about", s.getAbout)
	m.HandleFunc("GET /v1/health", s.getHealth)
	m.HandleFunc("GET /v1/update", s.getUpdate)
	m.HandleFunc("GET /v1/picture", s.getPicture)
	m.HandleFunc("GET /v1/report", s.getReport)
	m.HandleFunc("GET /v1/standing", s.getStanding)
	m.HandleFunc("GET /v1/certificate", s.getCertificate)
	return m
}

// fail answers with an error. Programs find it as JSON.
func fail(w http.ResponseWriter, status int, err error) {
	if errors.Is(err, errNotJoined) {
		status = http.StatusConflict
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": plain.Error(err)}) // a client that has gone needs no answer
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

// take decodes a request's body.
func take(r *http.Request, v any) error {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil && err != io.EOF {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	return nil
}

func lang(r *http.Request) string { return words.Pick(r.URL.Query().Get("lang")) }

// resting is the status while no peer runs: of a computer without a network, or of a peer that is about to start.
func (s *station) resting() *status {
	set := s.settings()
	st := &status{State: stateUnjoined, Limits: s.limitsNow()}
	if is, err := peer.IsMember(set.Data); is || err != nil {
		st.State = stateStarting
	}
	st.Says = words.T("say." + st.State).In(words.English)
	st.Version, st.Account, st.Threads, st.Queue, st.Since = version.String(), set.Account, set.Threads, set.Queue, s.begun
	st.Running, st.Waiting = []peer.TaskStatus{}, []peer.TaskStatus{}
	return st
}

// limitsNow are the limits by the volunteer's settings alone.
func (s *station) limitsNow() limit.Force {
	set := s.settings()
	l := limit.New(set.Settings, byDefault, nil)
	l.SetSources(set.from)
	return l.At(time.Now())
}

func (s *station) status() *status {
	if p := s.running(); p != nil {
		return p.status(p.statuses())
	}
	return s.resting()
}

// getStatus answers with the whole status. A person has asked, so the server is asked too if it is silent; the page, which looks every two
// seconds, has getNow, which asks only while no network is there: a connection lasts for a minute or two after the cable was pulled.
func (s *station) getStatus(w http.ResponseWriter, r *http.Request) {
	p, err := s.live(r.Context())
	if err != nil {
		answer(w, s.resting())
		return
	}
	st := p.status(p.asked(r.Context(), true))
	update := s.updates.told(words.English)
	st.Update = &update
	answer(w, st)
}

// present is what the page shows all the time, in its language.
type present struct {
	State   string            `json:"state"`
	Says    string            `json:"says"`
	For     string            `json:"for,omitempty"` // the company
	Contact string            `json:"contact,omitempty"`
	Mode    string            `json:"mode"`
	Until   time.Time         `json:"until,omitzero"`
	Hold    string            `json:"hold,omitempty"`
	Running []peer.TaskStatus `json:"running"`
	Waiting []peer.TaskStatus `json:"waiting"`
	Threads int               `json:"threads"`
	Speed   speed             `json:"speed"`
	Done    limit.Done        `json:"done"`
	Limits  []shownCap        `json:"limits"`
	Admin   string            `json:"admin,omitempty"` // whom to ask about a policy
	Notes   []string          `json:"notes,omitempty"`
	Holding []string          `json:"notes_holding,omitempty"` // those of the notes because of which nothing is fetched
	Version string            `json:"version"`

	Networks []presentNetwork `json:"networks"`
}

// shownCap is a limit as the page shows it.
type shownCap struct {
	Key       string `json:"setting"`
	Value     int    `json:"value"`            // 0: none
	Used      int64  `json:"used,omitempty"`   // of a budget, in bytes
	By        string `json:"by,omitempty"`     // "you", "joining" or "admin"
	Source    string `json:"source,omitempty"` // in words
	Overruled *int   `json:"overruled,omitempty"`
}

// Who set a limit.
const (
	byYou     = "you"
	byJoining = "joining" // it is what joining proposes, and stands in the volunteer's settings file
	byAdmin   = "admin"
)

func byOf(source string) string {
	switch {
	case source == "":
		return ""
	case len(source) >= 11 && source[:11] == "policy from":
		return byAdmin
	}
	return byYou
}

func shownCaps(f *limit.Force, d *limit.Done, lang string) (out []shownCap) {
	for _, c := range []struct {
		key  string
		cap  limit.Cap
		used int64
	}{{"down_kib_per_s", f.DownKiBPerS, 0}, {"up_kib_per_s", f.UpKiBPerS, 0}, {"day_mib", f.DayMiB, d.Today.Bytes}, {"month_mib", f.MonthMiB, d.Month.Bytes}} {
		x := shownCap{Key: c.key, Value: c.cap.Value, Used: c.used, By: byOf(c.cap.Source)}
		if strings.HasPrefix(c.cap.Source, "your settings in ") && isProposed(c.key, c.cap.Value) {
			x.By = byJoining
		}
		if c.cap.Source != "" {
			x.Source = sourceText(c.cap.Source).In(lang)
		}
		if o := c.cap.Overruled; o != nil {
			x.Overruled = &o.Value
		}
		out = append(out, x)
	}
	return out
}

func (s *station) getNow(w http.ResponseWriter, r *http.Request) {
	st, l, now := s.status(), lang(r), time.Now()
	if p := s.running(); p != nil && st.unplugged {
		st = p.status(p.asked(r.Context(), false))
	}
	says := words.T("say." + st.State)
	if st.State != stateUnjoined && st.State != stateStarting {
		st.State, says = told(st, now, onPage)
	}
	var notes, holding []string
	if p := s.running(); p != nil {
		notes, holding = p.notesIn(l, st), p.notes.in(l, note.holds)
	}
	answer(w, present{State: st.State, Says: says.In(l), For: companyText(st).In(l), Contact: st.Contact, Mode: st.Mode, Until: st.Until, Hold: st.Hold, Running: st.Running, Waiting: st.Waiting, Threads: st.Threads,
		Speed: st.Speed, Done: st.Done, Limits: shownCaps(&st.Limits, &st.Done, l), Admin: st.Limits.Contact, Notes: notes, Holding: holding, Version: st.Version, Networks: presentNetworks(st.Networks, now, l)})
}

func (s *station) postOrder(w http.ResponseWriter, r *http.Request) {
	args := map[string]string{}
	if err := take(r, &args); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	order := r.PathValue("order")
	if order == "deny" {
		s.deny(w, args["domain"], args["allow"] != "")
		return
	}
	if order == "update" {
		s.postUpdate(w, args)
		return
	}
	p, err := s.live(r.Context())
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	if order == "joined" { // with limits, perhaps
		if err := s.takeUp(); err != nil {
			fail(w, http.StatusConflict, err)
			return
		}
	}
	if order == "share" {
		s.share(w, p, args)
		return
	}
	if order == "object" {
		s.object(w, r, p, args)
		return
	}
	if order == "profile" {
		s.profile(w, r, p, args)
		return
	}
	if err := p.do(order, args); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// wanted reads ?n=100&match=TEXT&site=HOST&network=NAME&since=TIME&until=TIME. The times are as `shoal-peer log --since` takes them.
func (s *station) wanted(q url.Values, in *peer.Journal) (want peer.Want, err error) {
	want = peer.Want{Newest: 100, Match: q.Get("match"), Site: q.Get("site")}
	if want.For, err = recorded(s.settings().Data, q.Get("network"), in); err != nil {
		return want, err
	}
	if n, err := strconv.Atoi(q.Get("n")); err == nil && n > 0 {
		want.Newest = n
	}
	for name, to := range map[string]*time.Time{"since": &want.Since, "until": &want.Until} {
		if text := q.Get(name); text != "" {
			if *to, err = since(text, time.Now()); err != nil {
				return want, err
			}
		}
	}
	return want, nil
}

// getLog answers with JSON lines.
func (s *station) getLog(w http.ResponseWriter, r *http.Request) {
	j, err := s.journal()
	want, wrong := s.wanted(r.URL.Query(), j)
	if wrong != nil {
		fail(w, http.StatusBadRequest, wrong)
		return
	}
	var entries []peer.Entry
	if err == nil && j != nil {
		entries, err = j.Log(want)
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	for out := json.NewEncoder(w); len(entries) > 0; entries = entries[1:] {
		if out.Encode(entries[0]) != nil {
			return // a client that has gone needs no answer
		}
	}
}

// siteTotals is what GET /v1/sites answers.
type siteTotals struct {
	Sites []siteTotal `json:"sites"`
	All   int         `json:"all"` // sites there are, also those not listed
}

type siteTotal struct {
	peer.Site
	Denied string `json:"denied,omitempty"` // why it is not fetched any more
}

func (s *station) getSites(w http.ResponseWriter, r *http.Request) {
	j, err := s.journal()
	want, wrong := s.wanted(r.URL.Query(), j)
	if wrong != nil {
		fail(w, http.StatusBadRequest, wrong)
		return
	}
	out := siteTotals{Sites: []siteTotal{}}
	if err == nil && j != nil {
		var list []peer.Site
		list, out.All, err = j.Sites(want)
		for _, x := range list {
			t := siteTotal{Site: x}
			if p := s.running(); p != nil {
				if why := p.refuse("http://" + x.Site); why != nil && x.Site != peer.OtherSites {
					t.Denied = plain.Error(why)
				}
			}
			out.Sites = append(out.Sites, t)
		}
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, out)
}

// getPicture answers with a picture to share.
func (s *station) getPicture(w http.ResponseWriter, r *http.Request) {
	d := s.status().Done
	if d.Since.IsZero() {
		d.Since = time.Now()
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(page.Picture(lang(r), d.Ever.Pages, d.Since)) // a client that has gone needs no answer
}

// getHistory answers GET /v1/history?span=hour, day or month. What it tells is on the disk.
func (s *station) getHistory(w http.ResponseWriter, r *http.Request) {
	span, now := r.URL.Query().Get("span"), time.Now()
	if span == "" {
		span = limit.Spans[0].Name
	}
	var h *limit.History
	var err error
	if p := s.running(); p != nil {
		h = p.history
	} else if h, err = limit.OpenHistory(historyFile(s.settings().Data), now); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	past, ok := h.Past(span, now)
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Errorf("span %q; want hour, day or month", span))
		return
	}
	if p := s.running(); p != nil {
		p.keepHistory() // after the look: what comes in between is kept and not told
	}
	answer(w, past)
}
