package main

import (
	"net/http"
	"slices"
	"time"

	"shoal/peer/limit"
	"shoal/peer/words"
)

// hour is an hour of the week as limits hold in it.
type hour struct {
	Day    int    `json:"day"` // 0: Monday
	Hour   int    `json:"hour"`
	Paused bool   `json:"paused,omitempty"`
	Down   int    `json:"down,omitempty"`
	Up     int    `json:"up,omitempty"`
	By     string `json:"by,omitempty"` // who set what makes it differ
}

// tried is what POST /v1/settings/try answers: what would hold.
type tried struct {
	Errors    []fieldError `json:"errors"`
	Limits    []shownCap   `json:"limits"`
	Paused    string       `json:"paused,omitempty"`
	Overruled []string     `json:"overruled"`        // sentences: what a policy overrides
	Unread    bool         `json:"unread,omitempty"` // a policy cannot be read, so what it overrides is not known
	Week      []hour       `json:"week"`
	Held      []string     `json:"held"` // changed settings that a flag or variable holds
}

func (s *station) trySettings(w http.ResponseWriter, r *http.Request) {
	c, set, bad, ok := s.read(w, r)
	if !ok {
		return
	}
	now, l := time.Now(), lang(r)
	would := s.limits(r.Context()).Try(set.Settings, set.from)
	f := would.At(now)
	out := tried{Errors: bad.Errors, Limits: shownCaps(&f, &limit.Done{}, l), Week: week(would, now), Overruled: []string{}, Held: []string{}}
	if out.Errors == nil {
		out.Errors = []fieldError{}
	}
	out.Unread = f.Reason.Why == limit.PolicyUnread
	if t := pausedBy(&f, now); t.Key != "" {
		out.Paused = t.In(l)
	}
	for _, x := range out.Limits {
		if x.Overruled != nil {
			d, _ := settingOf(x.Key)
			unit := words.T(d.unit).In(l)
			wish := words.T("amount", *x.Overruled, unit)
			if *x.Overruled == 0 {
				wish = words.T("amount.none")
			}
			out.Overruled = append(out.Overruled, words.T("try.overruled", words.T("name."+x.Key), wish, words.T("amount", x.Value, unit), x.Source).In(l))
		}
	}
	if f.DSCPLE && !set.DSCPLE {
		out.Overruled = append(out.Overruled, words.T("try.mark", sourceText(f.DSCPSource)).In(l))
	}
	for key := range c {
		if from := set.from[key]; from != "" && from != inFile(s.file) {
			out.Held = append(out.Held, key)
		}
	}
	slices.Sort(out.Held)
	answer(w, out)
}

// week returns the limits in each hour of a week, as they are in its middle. It begins on Monday.
func week(l *limit.Limits, now time.Time) (out []hour) {
	monday := time.Date(now.Year(), now.Month(), now.Day()-(int(now.Weekday())+6)%7, 0, 0, 0, 0, now.Location())
	for d := range 7 {
		for h := range 24 {
			f := l.At(time.Date(monday.Year(), monday.Month(), monday.Day()+d, h, 30, 0, 0, now.Location()))
			x := hour{Day: d, Hour: h, Paused: f.Paused != "", Down: f.DownKiBPerS.Value, Up: f.UpKiBPerS.Value}
			x.By = byYou
			from := []string{f.DownKiBPerS.Source, f.UpKiBPerS.Source}
			if x.Paused {
				from = []string{f.Reason.Source}
			}
			if slices.ContainsFunc(from, func(source string) bool { return byOf(source) == byAdmin }) {
				x.By = byAdmin
			}
			out = append(out, x)
		}
	}
	return out
}
