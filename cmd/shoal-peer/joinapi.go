package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"shoal/internal/member"
	"shoal/internal/version"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// joinAsked is a request to join: first to look, then, with the same join string, to agree.
type joinAsked struct {
	Join    string `json:"join"`
	Account string `json:"account"`
	Agree   bool   `json:"agree"`
	Limits  bool   `json:"limits"` // with the proposed limits; counts with Agree
}

// joinTold says who asks and what joining means.
type joinTold struct {
	Name     string     `json:"network_name"` // as the company calls itself
	Contact  string     `json:"contact,omitempty"`
	Network  string     `json:"network"`
	Does     []string   `json:"does"`     // sentences: what the computer will do
	Uses     []use      `json:"uses"`     // what of it is used
	Proposed []proposal `json:"proposed"` // limits
	Joined   bool       `json:"joined"`
	File     string     `json:"settings,omitempty"` // where limits were written
}

// use is one thing of the computer that is used.
type use struct {
	What string `json:"what"`
	How  string `json:"how"`
}

// joinPlace is where a network is joined.
type joinPlace struct {
	dir    string
	is     bool     // a member already
	beside []string // names of the other networks of this computer
}

// placeFor finds the folder for the network of a join string, and reports why this computer cannot join it.
func placeFor(set *settings, join string) (at joinPlace, err error) {
	j, err := member.ParseJoinString(join)
	if err != nil {
		return at, err
	}
	if at.dir, at.is, err = peer.FolderFor(set.Data, j.Network); err != nil || at.is {
		return at, err
	}
	all, err := peer.Memberships(set.Data)
	if err != nil {
		return at, err
	}
	for _, m := range all {
		at.beside = append(at.beside, companyText(&status{Status: peer.Status{Network: m.Network.String(), Name: m.Company}}).In(words.English))
	}
	switch {
	case len(all) >= peer.MaxNetworks:
		return at, fmt.Errorf("this computer is a member of %d networks, the most that it can be; leave one first: %s", len(all), strings.Join(at.beside, ", "))
	case len(all) >= set.Threads:
		return at, fmt.Errorf("each network needs a site at a time, and this computer may fetch from %s only, for %s; raise the setting threads first", words.Count(set.Threads, "count.site").In(words.English), strings.Join(at.beside, ", "))
	}
	return at, nil
}

// look asks the network of a join string, and keeps nothing of the answer.
func look(ctx context.Context, set *settings, dir, join string) (*peer.Offer, error) {
	cfg := set.config()
	cfg.Dir, cfg.Join, cfg.Listen, cfg.Version = dir, join, nil, version.String()
	p := &program{set: *set, log: slog.New(slog.DiscardHandler), limits: limit.New(set.Settings, "your settings", nil), meter: limit.NewMeter(nil)}
	newPolicies(p).read(ctx, time.Now())
	p.members(&cfg, p.meter)
	return peer.Look(ctx, cfg)
}

// lookWait bounds a look at a network. It is less than the time that the control API gives an answer.
const lookWait = 25 * time.Second

func (s *station) postJoin(w http.ResponseWriter, r *http.Request) {
	var ask joinAsked
	if err := take(r, &ask); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	set := s.settings()
	ask.Join = strings.TrimSpace(ask.Join)
	if ask.Join == "" {
		fail(w, http.StatusBadRequest, errors.New("the join string is empty: the search company gives it to you; it begins with shoal-join-"))
		return
	}
	if ask.Account != "" {
		set.Account = ask.Account
	}
	at, err := placeFor(&set, ask.Join)
	if err == nil && at.is {
		err = errors.New("this computer is a member of this network already")
	}
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	o, err := s.offerOf(r.Context(), &set, at.dir, ask.Join)
	if err != nil {
		fail(w, http.StatusBadGateway, err)
		return
	}
	told := terms(&set, o, at.beside, lang(r))
	if ask.Agree {
		if ask.Limits && len(told.Proposed) > 0 {
			if err := s.agreed(told.Proposed); err != nil {
				fail(w, http.StatusInternalServerError, err)
				return
			}
			told.File = s.file
		}
		if err := o.Accept(); err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		s.mu.Lock()
		s.offer, s.offered = nil, ""
		s.mu.Unlock()
		told.Joined = true
		wake(s.poke)
	}
	answer(w, told)
}

// agreed writes the proposed limits, and takes them up.
func (s *station) agreed(wanted []proposal) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := writeLimits(s.file, wanted); err != nil {
		return fmt.Errorf("the limits cannot be written to %s: %w; make it writable, or join without them", s.file, err)
	}
	return s.reload()
}

// offerOf returns the offer that was looked at, or looks.
func (s *station) offerOf(ctx context.Context, set *settings, dir, join string) (*peer.Offer, error) {
	s.mu.Lock()
	o := s.offer
	if s.offered != join {
		o = nil
	}
	s.mu.Unlock()
	if o != nil {
		return o, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	o, err := look(ctx, set, dir, join)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.offer, s.offered = o, join
	s.mu.Unlock()
	return o, nil
}

// terms says what joining means. beside names the networks that this computer crawls for already.
func terms(set *settings, o *peer.Offer, beside []string, lang string) joinTold {
	st := status{}
	st.Name, st.Contact, st.Network = o.Name, o.Contact, o.Network.String()
	out := joinTold{Name: companyText(&st).In(lang), Contact: o.Contact, Network: st.Network, Proposed: append([]proposal{}, proposals(set)...)} // the page reads its length
	for _, key := range []string{"join.fetch", "join.polite", "join.send", "join.never", "join.seen", "join.stop"} {
		out.Does = append(out.Does, words.T(key, out.Name).In(lang))
	}
	if len(beside) > 0 {
		out.Does = append(out.Does, words.T("join.beside", strings.Join(beside, ", ")).In(lang))
	}
	add := func(key, how string, args ...any) {
		out.Uses = append(out.Uses, use{words.T("use." + key).In(lang), words.T(how, args...).In(lang)})
	}
	add("cpu", "use.cpu.how", words.Count(set.Threads, "count.site"))
	add("disk", "use.disk.how", set.DiskMiB, set.Data)
	if set.Port > 0 {
		add("port", "use.port.how", set.Port)
	} else {
		add("port", "use.port.any")
	}
	for _, c := range []struct {
		key   string
		value int
	}{{"down_kib_per_s", set.DownKiBPerS}, {"up_kib_per_s", set.UpKiBPerS}, {"day_mib", set.DayMiB}, {"month_mib", set.MonthMiB}} {
		d, _ := settingOf(c.key)
		value := c.value
		for _, p := range out.Proposed {
			if p.Key == c.key {
				value = p.Value
			}
		}
		how := words.T("amount.none")
		if value > 0 {
			how = words.T("use.most", words.T("amount", value, words.T(d.unit)))
		}
		out.Uses = append(out.Uses, use{words.T("name." + c.key).In(lang), how.In(lang)})
	}
	add("battery", "use."+fmt.Sprint(set.OnBattery))
	add("metered", "use."+fmt.Sprint(set.OnMetered))
	return out
}
