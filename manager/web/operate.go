package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/desk"
)

// routes are what needs an operator.
func (s *server) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /strategy", s.view(s.strategyPage))
	mux.HandleFunc("GET /hosts", s.view(s.hostsPage))
	mux.HandleFunc("GET /channel/{id}/split", s.view(s.splitPage))
	mux.HandleFunc("GET /peers/purge", s.view(s.purgePage))
	mux.HandleFunc("POST /peers/purge", s.operate("purge", s.purgePeer))
	mux.HandleFunc("POST /peers/ban", s.operate("ban", s.ban))
	mux.HandleFunc("POST /peers/unban", s.operate("unban", s.unban))
	mux.HandleFunc("POST /channel/{id}/crawl-now", s.operate("crawl", s.crawlNow))
	mux.HandleFunc("POST /channel/{id}/pause", s.operate("pause", s.pause))
	mux.HandleFunc("POST /channel/{id}/remove", s.operate("remove", s.remove))
	mux.HandleFunc("POST /channel/{id}/split", s.operate("split", s.split))
	mux.HandleFunc("POST /channels", s.operate("", s.add))
	mux.HandleFunc("POST /hosts/block", s.operate("block", s.block))
	mux.HandleFunc("POST /hosts/unblock", s.operate("unblock", s.unblock))
	mux.HandleFunc("POST /strategy", s.operate("strategy", s.strategy))
}

// said is what the page after an action says, by the word in its address, so that a link from elsewhere cannot put
// other words on the page.
var said = map[string]string{
	"crawl": "It will be crawled as soon as there is room.", "pause": "Done: it shows below.", "split": "The directories are channels of their own now.",
	"block":   "Nothing more is crawled there. Peers that are at it are told to stop.",
	"unblock": "It may be crawled again.", "remove": "The channel is forgotten. Its pages stay in the archive.", "strategy": "The strategy is in force, and kept over a restart.",
	"purge": "What it delivered is being taken back. The channels that it was of are crawled next.", "ban": "It is refused from now on, and what it had claimed is handed out again when its lease would have ended.", "unban": "It may join again.",
	"uphold":  "The suspension is final: it is banned, and what it alone has seen stays withdrawn.",
	"pardon":  "It is pardoned: what was withdrawn and not purged comes back, and it may work again once no other peer of its account is suspended or banned.",
	"rollout": "The version is being rolled out. How many peers run it shows below.",
	"stop":    "The roll-out has stopped: no further peer is told of the version.",
}

// operate does what the token's holder asks, and goes back to where it was asked, or says what is wrong.
func (s *server) operate(word string, next func(http.ResponseWriter, *http.Request) (at string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.mayOperate(r) {
			if _, any := shown(r); any || strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
				unauthorized(w, r)
				return
			}
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			var big *http.MaxBytesError
			if errors.As(err, &big) {
				err = fmt.Errorf("the form holds more than %d kB: give a long list to shoal channel import", maxForm/1000)
			}
			s.refused(w, r, err)
			return
		}
		if !s.mayChange(r) {
			d := s.frame(r, "", "Log in again")
			d["To"] = loginFor(backOf(r))
			w.WriteHeader(http.StatusForbidden)
			s.render(w, "halflogin", d)
			return
		}
		at, err := next(w, r)
		if err != nil {
			s.refused(w, r, err)
			return
		}
		if word != "" {
			sep := "?"
			if strings.Contains(at, sep) {
				sep = "&"
			}
			at += sep + "done=" + word
		}
		http.Redirect(w, r, at, http.StatusSeeOther)
	}
}

const maxForm = 256 << 10 // bytes

// refused says on a page what was wrong.
func (s *server) refused(w http.ResponseWriter, r *http.Request, err error) {
	d := s.frame(r, "", "That was not done")
	d["Why"], d["Back"] = plainly(err), backOf(r)
	w.WriteHeader(http.StatusBadRequest)
	s.render(w, "refused", d)
}

// backOf is the page from which a request came.
func backOf(r *http.Request) string {
	if u, err := url.Parse(r.Header.Get("Referer")); err == nil && strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(u.Path, "//") {
		return u.Path
	}
	return "/"
}

// plainly is an error as people read it, without characters that the page does not show.
func plainly(err error) string { return plain.Error(err) }

func channelPage(id channel.ID) string { return fmt.Sprintf("/channel/%d", id) }

func (s *server) crawlNow(_ http.ResponseWriter, r *http.Request) (string, error) {
	id, err := pathID(r)
	if err != nil {
		return "", err
	}
	return channelPage(id), s.cfg.Desk.CrawlNow(r.Context(), id)
}

func (s *server) pause(_ http.ResponseWriter, r *http.Request) (string, error) {
	id, err := pathID(r)
	if err != nil {
		return "", err
	}
	return channelPage(id), s.cfg.Desk.Pause(r.Context(), id, r.PostFormValue("paused") != "false")
}

func (s *server) remove(_ http.ResponseWriter, r *http.Request) (string, error) {
	id, err := pathID(r)
	if err != nil {
		return "", err
	}
	return "/channels", s.cfg.Desk.Remove(r.Context(), id)
}

func (s *server) add(_ http.ResponseWriter, r *http.Request) (string, error) {
	urls := strings.Fields(r.PostFormValue("urls"))
	if len(urls) == 0 {
		return "", fmt.Errorf("no URL was given: write https://example.org/ for a host, https://example.org/news/ for one directory")
	}
	added, _, err := s.cfg.Desk.Add(r.Context(), urls)
	at, n := url.Values{}, map[string]int{}
	for i, a := range added {
		word := "known"
		if a.New {
			word = "new"
		}
		if n[word]++; i < pageRowsMax {
			at.Add(word, fmt.Sprint(a.Channel))
		}
	}
	if len(added) > pageRowsMax {
		at.Set("all_new", fmt.Sprint(n["new"]))
		at.Set("all_known", fmt.Sprint(n["known"]))
	}
	return "/channels/added?" + at.Encode(), err
}

// added shows the channels that were added, and those that were there before. Its address names the first ones by number alone, and says how many there are.
func (s *server) added(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "channel", "Sites added")
	for _, word := range []string{"new", "known"} {
		ids := r.URL.Query()[word]
		var rows []desk.Row
		for _, text := range ids[:min(len(ids), pageRowsMax)] {
			id, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				continue
			}
			row, _, err := s.cfg.Desk.Row(r.Context(), channel.ID(id))
			switch {
			case errors.Is(err, channel.ErrUnknown): // removed meanwhile
				continue
			case err != nil:
				d["Wrong"], row = plainly(err), desk.Row{ID: channel.ID(id)}
			}
			rows = append(rows, row)
		}
		all, err := strconv.Atoi(r.URL.Query().Get("all_" + word))
		if err != nil || all < len(rows) || all > maxForm {
			all = len(rows)
		}
		d[word], d["all_"+word], d["more_"+word] = rows, all, all-len(rows)
	}
	s.render(w, "added", d)
}

func (s *server) split(_ http.ResponseWriter, r *http.Request) (string, error) {
	id, err := pathID(r)
	if err != nil {
		return "", err
	}
	dirs := slices.Concat(r.PostForm["dir"], strings.Fields(r.PostFormValue("more")))
	if len(dirs) == 0 {
		return "", fmt.Errorf("no directory was chosen")
	}
	_, _, err = s.cfg.Desk.Split(r.Context(), id, dirs)
	return channelPage(id), err
}

func (s *server) block(_ http.ResponseWriter, r *http.Request) (string, error) {
	if r.PostFormValue("unknown") == "" {
		if err := s.cfg.Desk.KnownHost(r.Context(), r.PostFormValue("host")); err != nil {
			return "", err
		}
	}
	why := strings.TrimSpace(r.PostFormValue("why"))
	if why == "" {
		why = desk.Unsaid
	}
	return "/hosts", s.cfg.Desk.Block(r.Context(), r.PostFormValue("host"), why)
}

func (s *server) unblock(_ http.ResponseWriter, r *http.Request) (string, error) {
	return "/hosts", s.cfg.Desk.Block(r.Context(), r.PostFormValue("host"), "")
}

func (s *server) strategy(_ http.ResponseWriter, r *http.Request) (string, error) {
	if r.PostFormValue("name") == "" {
		return "", errors.New("no strategy was chosen")
	}
	_, err := s.cfg.Desk.SetStrategy(r.Context(), desk.StrategyAsk{Name: r.PostFormValue("name")})
	return "/strategy", err
}

// frame is what every page has.
func (s *server) frame(r *http.Request, page, title string) map[string]any {
	return map[string]any{"O": s.cfg.Desk.Overview(), "Banner": s.cfg.Desk.Banner(r.Context()), "Page": page, "Title": title, "MayOperate": s.mayOperate(r),
		"Self": r.URL.RequestURI(), "Said": said[r.URL.Query().Get("done")]}
}

// strategyPage shows the strategy in force; ?try=NAME previews another one.
func (s *server) strategyPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "strategy", "Strategy")
	in, err := s.cfg.Desk.Strategy(r.Context()) // the overview is a moment old
	if err != nil {
		d["Wrong"] = plainly(err)
	}
	d["Strategies"], d["InForce"], d["From"] = in.Names, in.Name, in.Sequencers
	d["Missing"] = in.Note
	texts := map[string]string{}
	for _, name := range in.Names {
		texts[name] = desk.About(name)
	}
	d["About"] = texts
	if name := r.URL.Query().Get("try"); name != "" {
		t, err := s.cfg.Desk.TryStrategy(r.Context(), desk.StrategyAsk{Name: name})
		if err != nil {
			d["Wrong"] = plainly(err)
			w.WriteHeader(http.StatusBadRequest)
		} else {
			d["Trial"], d["Tried"] = t, name
		}
	}
	s.render(w, "strategy", d)
}

const hostRows = 200

func (s *server) hostsPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "hosts", "Hosts")
	q, blocked := r.URL.Query().Get("q"), r.URL.Query().Get("blocked") == "1"
	hosts, err := s.cfg.Desk.Hosts(r.Context(), q, blocked, hostRows+1)
	if err != nil {
		w.WriteHeader(wrong(d, err))
	}
	d["Q"], d["Blocked"], d["Hosts"], d["More"] = q, blocked, hosts[:min(len(hosts), hostRows)], len(hosts) > hostRows
	s.render(w, "hosts", d)
}

func (s *server) splitPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "channel", "Split a channel")
	id, err := pathID(r)
	if err != nil {
		err = channel.ErrUnknown
	} else {
		var row desk.Row
		if row, _, err = s.cfg.Desk.Row(r.Context(), id); err == nil {
			d["Row"] = row
			d["Dirs"], d["Pages"], err = s.cfg.Desk.Proposals(r.Context(), id)
		}
	}
	switch {
	case d["Row"] == nil:
		w.WriteHeader(noChannel(d, err))
	case err != nil:
		d["Wrong"] = plainly(err)
	}
	s.render(w, "split", d)
}
