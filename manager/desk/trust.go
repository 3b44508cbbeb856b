package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// Trust is how far what peers deliver is believed, and what finding that out costs.
type Trust struct {
	TrustRules
	Arbiter  bool          `json:"arbiter"` // the manager itself fetches what is contested
	Says     []string      `json:"says"`    // what an operator should know of it, in words
	Proposed TrustProposal `json:"proposed"`
	// Peers that have had a task, by standing.
	Newcomers   int `json:"peers_newcomers"`
	Established int `json:"peers_established"`
	Suspended   int `json:"peers_suspended"`
	Banned      int `json:"peers_banned"`
	Suspects    int `json:"peers_suspect"`
	Above       int `json:"peers_above"` // whose score is where one is suspended, and that are not
	// Peers and accounts that an operator has banned, whatever was delivered.
	Barred int `json:"banned_by_operator"`
	// CountedSince is the manager's start, with which the sums below begin; zero: each of several managers counts from its own start.
	CountedSince time.Time `json:"counted_since,omitzero"`

	Deliveries   int64   `json:"deliveries"`
	Pages        int64   `json:"pages_judged"`
	Unjudged     int64   `json:"deliveries_not_judged"`
	Asked        int64   `json:"pages_asked_again"`
	Answered     int64   `json:"pages_seen_again"`
	Late         int64   `json:"pages_not_seen_in_time"`
	Dropped      int64   `json:"pages_beyond_the_share"`
	Waiting      int     `json:"pages_waiting"`
	Contested    int64   `json:"pages_contested"`
	Arbitrated   int64   `json:"pages_fetched_by_the_arbiter"`
	Unseen       int64   `json:"pages_not_seen_by_the_arbiter"` // of these, of which nothing came
	Charges      int64   `json:"charges"`
	Suspensions  int64   `json:"suspensions"`
	WouldSuspend int64   `json:"suspensions_in_shadow"`
	OfPagesShare float64 `json:"asked_share"` // of the pages that were delivered, which were fetched again or are being
	// Channels on which peers lost cases.
	Watched     int              `json:"channels_watched"`
	Seen        int              `json:"channels_to_be_seen"`
	Doubted     []DoubtedChannel `json:"channels_in_doubt,omitempty"`      // those of both that are named
	DoubtedMore int              `json:"channels_in_doubt_more,omitempty"` // that are not
}

// Doubt is what follows from cases that peers lost on a channel.
type Doubt struct {
	Watched time.Time `json:"watched_until,omitzero"`
	Others  int       `json:"crawls_by_others,omitempty"` // the next ones, for pages that are held to be seen by other peers
}

// DoubtedChannel is a channel of which that holds.
type DoubtedChannel struct {
	ID   channel.ID `json:"id"`
	Host string     `json:"host"`
	Doubt
}

// Doubted says in words what follows; empty: nothing.
func (d Doubt) Doubted() string {
	var says []string
	if !d.Watched.IsZero() {
		says = append(says, fmt.Sprintf("On watch until %s, as peers lost cases here: established peers from anywhere crawl it, more of its pages are fetched again, and a new version is held until that has shown nothing against it.",
			d.Watched.Format("2 January 2006")))
	}
	switch {
	case d.Others == 1:
		says = append(says, "The next crawl is for another peer, near or not, to see pages that are held.")
	case d.Others > 1:
		says = append(says, fmt.Sprintf("The next %d crawls are for other peers, near or not, to see pages that are held.", d.Others))
	}
	return strings.Join(says, " ")
}

// TrustRules are the rules that an operator sets.
type TrustRules struct {
	Enforce      bool    `json:"enforce"`         // false: shadow: scores run, and nothing follows
	T            float64 `json:"suspend_at"`      // score at which a peer is suspended
	Newcomers    float64 `json:"newcomers_share"` // of tasks, that all newcomers together may have
	Beside       float64 `json:"beside_share"`    // of pages, that are fetched again beside those of each task
	SuspectShare float64 `json:"suspect_share"`   // of a suspect's pages
	PerTask      int     `json:"audits_a_task"`   // pages of each task that are fetched again
	PerNew       int     `json:"audits_a_newcomers_task"`
}

// TrustProposal is what scores have taught so far.
type TrustProposal struct {
	T          float64 `json:"suspend_at"` // 0: too little is known
	Lost       float64 `json:"lost_share"` // of checks, that honest peers seem to lose
	Excursions int     `json:"excursions"` // of scores, from zero and back
	PeerYears  float64 `json:"peer_years"`
}

// TrustAsk changes rules. What it leaves out stays.
type TrustAsk struct {
	Enforce      *bool    `json:"enforce,omitempty"`
	T            *float64 `json:"suspend_at,omitempty"`
	Newcomers    *float64 `json:"newcomers_share,omitempty"`
	Beside       *float64 `json:"beside_share,omitempty"`
	SuspectShare *float64 `json:"suspect_share,omitempty"`
	PerTask      *int     `json:"audits_a_task,omitempty"`
	PerNew       *int     `json:"audits_a_newcomers_task,omitempty"`
}

// PeerTrust is how far one peer is believed.
type PeerTrust struct {
	Peer      string  `json:"peer,omitempty"` // empty: only its number is known
	Deliverer string  `json:"deliverer"`      // its number, as captures name it
	Account   string  `json:"account,omitempty"`
	Standing  string  `json:"standing"`
	Suspect   bool    `json:"suspect"`
	Barred    bool    `json:"banned_by_operator,omitempty"` // whatever it delivered
	Forging   float64 `json:"score_forging"`
	Laziness  float64 `json:"score_laziness"`
	Checking  float64 `json:"score_checking"`
	Tasks     int     `json:"tasks"`
	Checks    int     `json:"valid_checks"`
	Lost      int     `json:"lost"`
	Pardons   int     `json:"pardons"`
	// Others are the suspended and banned peers of its account: while there are any, it gets no tasks. Only what is told of one peer has them.
	Others []string `json:"others_of_account,omitempty"`
	// Undone says what was decided about it and is not carried out yet; likewise.
	Undone []string `json:"not_carried_out,omitempty"`
}

// Stands says in words where a peer stands.
func (p *PeerTrust) Stands() string {
	s := p.Standing
	if p.Suspect {
		s += ", suspect"
	}
	if p.Barred {
		s += ", banned by an operator"
	}
	return s
}

// Pardoned is a peer that was pardoned.
type Pardoned struct {
	PeerTrust
	Captures int  `json:"captures"`       // of it that are kept, withdrawn before or not; what was purged cannot be given back
	More     bool `json:"more,omitempty"` // there are more, which were not counted in the time that there was
}

// Says tells in words what a pardon gave back.
func (p *Pardoned) Says() string {
	back := "what was withdrawn is given back"
	switch {
	case p.Captures == 0 && !p.More:
		back = "nothing that it delivered is kept, so that nothing is given back"
	case p.More:
		back += fmt.Sprintf("; the archive keeps more than %s by it", plain.Count(p.Captures, "capture"))
	default:
		back += fmt.Sprintf("; the archive keeps %s by it", plain.Count(p.Captures, "capture"))
	}
	says := "is a member again; its scores begin at zero, and " + back + "."
	if n := len(p.Others); n > 0 {
		says += fmt.Sprintf(" It gets no tasks yet, as %s of its account must be pardoned too: %s", plain.Count(n, "peer"), strings.Join(p.Others[:min(n, othersNamed)], ", "))
		if n > othersNamed {
			says += fmt.Sprintf(" and %d more", n-othersNamed)
		}
		says += "."
	}
	return says
}

const othersNamed = 5

// Case is one page about which peers said different things.
type Case struct {
	Number  string    `json:"case"`
	URL     string    `json:"url"`
	Channel uint64    `json:"channel"`
	Reason  string    `json:"reason"`
	Means   string    `json:"means,omitempty"` // the reason in a sentence
	Accused string    `json:"accused"`         // numbers of peers
	Accuser string    `json:"accuser"`
	Loser   string    `json:"loser,omitempty"` // empty: nobody was charged
	Amount  float64   `json:"amount"`          // added to the loser's score
	Score   float64   `json:"score"`           // what that came to
	Opened  time.Time `json:"opened"`
	Closed  time.Time `json:"closed,omitzero"`
	Note    string    `json:"note,omitempty"`
	// Objection is what the loser says to it.
	Objection string     `json:"objection,omitempty"`
	Pardoned  time.Time  `json:"pardoned,omitzero"` // when the loser was; then the case is held against it no more
	Sides     []CaseSide `json:"sides,omitempty"`
}

// Outcome says in words what came of a case.
func (k Case) Outcome() string {
	var says string
	switch {
	case k.Loser == "" && k.Closed.IsZero():
		says = "It is open."
	case k.Loser == "":
		says = "Nobody was charged."
	case k.Amount == 0:
		says = fmt.Sprintf("%s lost. Nothing was added to its score of %.2f: what this task or this domain may add is reached.", k.Loser, k.Score)
	default:
		says = fmt.Sprintf("%s lost: %.2f was added to its score, which came to %.2f.", k.Loser, k.Amount, k.Score)
	}
	if k.Note != "" && k.Note != k.Reason {
		says += " " + k.Note
	}
	if !k.Pardoned.IsZero() {
		says += fmt.Sprintf(" It was pardoned on %s, and this is held against it no more.", k.Pardoned.UTC().Format("2 January 2006"))
	}
	return says
}

// CaseSide is what one side of a case saw.
type CaseSide struct {
	Side    string    `json:"side"`
	By      string    `json:"by,omitempty"` // number of the peer; empty: the arbiter
	Fetched time.Time `json:"fetched"`
	Status  int       `json:"status"`
	Final   string    `json:"leads_to,omitempty"`
	Bytes   int       `json:"bytes"`
	Body    string    `json:"body"`          // as text, its first maxSideText bytes
	Cut     bool      `json:"cut,omitempty"` // there was more than that, or more was not kept
	Error   string    `json:"error,omitempty"`
}

// PeerEvidence is what is held against a peer, and what it held against others.
type PeerEvidence struct {
	PeerTrust
	Cases []Case `json:"cases"`
	More  int    `json:"cases_more,omitempty"` // that were opened before those, and are not listed
}

// Limits of what is shown.
const (
	maxSideText = 64 << 10
	maxTrusted  = 1000 // peers
)

// Court is where an operator sees whom the manager believes, and decides.
type Court struct{ d *Desk }

// Court returns it.
func (d *Desk) Court() Court { return Court{d} }

// Rules tells how far peers are believed, and by which rules.
func (c Court) Rules(ctx context.Context) (Trust, error) {
	if err := c.d.Live(); err != nil {
		return Trust{}, err
	}
	i, err := c.d.m.Trust(ctx)
	if err != nil {
		return trustOf(&i), err
	}
	return c.trust(ctx, &i)
}

// trust adds to the sums the hosts of the channels in doubt.
func (c Court) trust(ctx context.Context, i *manager.TrustInfo) (Trust, error) {
	t := trustOf(i)
	if c.d.cfg.Managers == nil {
		t.CountedSince = c.d.m.Overview().Started
	}
	t.DoubtedMore = i.InDoubt - len(i.Doubts)
	byHand, err := c.byHand(ctx)
	if err != nil {
		return t, err
	}
	t.Barred = len(byHand)
	for _, d := range i.Doubts {
		ch, err := c.d.store.Channel(ctx, d.Channel)
		if errors.Is(err, channel.ErrUnknown) || ch.State == channel.Removed {
			continue
		}
		if err != nil {
			return t, err
		}
		t.Doubted = append(t.Doubted, DoubtedChannel{d.Channel, ch.Scope.Host, Doubt{d.Until, d.Views}})
	}
	return t, nil
}

// Set changes the rules, and keeps that over a restart.
func (c Court) Set(ctx context.Context, a TrustAsk) (Trust, error) {
	if err := c.d.Live(); err != nil {
		return Trust{}, err
	}
	if a == (TrustAsk{}) {
		return Trust{}, asks("nothing to change is named")
	}
	i, err := c.d.m.SetTrust(ctx, manager.TrustChoice(a))
	if err != nil {
		return trustOf(&i), err
	}
	return c.trust(ctx, &i)
}

func trustOf(i *manager.TrustInfo) Trust {
	r, c, e := &i.Rules, &i.Counts, &i.Errands
	t := Trust{
		TrustRules: TrustRules{Enforce: r.Enforce, T: r.T, Newcomers: r.Newcomers, Beside: r.Beside, SuspectShare: r.SuspectShare, PerTask: r.PerTask, PerNew: r.PerNew},
		Arbiter:    r.Arbiter, Proposed: TrustProposal{T: i.Proposal.T, Lost: i.Proposal.Q, Excursions: i.Proposal.Excursions, PeerYears: i.Proposal.PeerYears},
		Newcomers: i.Standings[trust.Newcomer], Established: i.Standings[trust.Established], Suspended: i.Standings[trust.Suspended], Banned: i.Standings[trust.Banned],
		Suspects: i.Suspects, Above: i.Above, Deliveries: c.Deliveries, Pages: c.Pages, Unjudged: c.Lost, Asked: e.Asked, Answered: e.Answered, Late: e.Late, Dropped: e.Dropped, Waiting: i.Waiting,
		Watched: i.Watched, Seen: i.Seen, Contested: c.Arbitrations, Arbitrated: c.Fetched, Unseen: c.Unseen, Charges: c.Charges, Suspensions: c.Suspended, WouldSuspend: c.WouldSuspend,
	}
	if c.Pages > 0 {
		t.OfPagesShare = float64(e.Asked+c.Fetched) / float64(c.Pages)
	}
	t.Says = append(blindSays(i.Blind), trustSays(&t)...)
	t.Says = append(undoneSays(i.Undone), t.Says...)
	if text := missing(i.Silent); text != "" {
		t.Says = append([]string{text}, t.Says...)
	}
	return t
}

// blindSays tells from where the arbiter sees nothing.
func blindSays(all []manager.Blind) (says []string) {
	for _, b := range all {
		what := "The manager itself could fetch nothing"
		if b.Machine != "" {
			what = "The manager on " + b.Machine + " itself could fetch nothing"
		}
		if b.Vantage > 0 {
			what += fmt.Sprintf(" through proxy %d of --arbiter-via", b.Vantage)
		}
		what += fmt.Sprintf(" from the last %d hosts of which peers say different things (%s).", b.Hosts, b.Why)
		if b.All {
			what += " As long as that is so, what is contested is not decided, and almost nobody who lies is found."
		}
		says = append(says, what)
	}
	return says
}

// undoneSays tells which decisions about peers are not carried out.
func undoneSays(all []manager.Undone) (says []string) {
	for _, u := range all {
		at := ""
		if u.Machine != "" {
			at = " at the manager on " + u.Machine
		}
		says = append(says, fmt.Sprintf("What was decided about %s is not carried out%s: %s, and that has failed since %s (%s). It is tried again by itself.",
			archive.DelivererName(uint64(u.Peer)), at, u.What, u.Since.UTC().Format("2006-01-02 15:04:05 UTC"), u.Why))
	}
	return says
}

// undoneMend says what to do about that.
const undoneMend = "See to what the reason names, such as a full disk or a database that does not answer; then it is done within five minutes. shoal peer evidence names the peer."

// blindMend says what to do about that.
const blindMend = "See that the manager's machine, and each proxy of --arbiter-via, reaches Web sites; or start it with --arbiter off, then two more peers decide."

// trustSays is what an operator should know.
func trustSays(t *Trust) []string {
	says := []string{}
	if !t.Enforce {
		says = append(says, "Scores run in shadow: no peer is suspended, and nothing is held back.")
		if t.Proposed.T > 0 {
			says = append(says, fmt.Sprintf("By what honest peers' scores were like, a peer should be suspended at %.1f: shoal trust set --enforce --suspend-at %.1f.", t.Proposed.T, t.Proposed.T))
		} else {
			says = append(says, fmt.Sprintf("Too little is known to propose at which score a peer should be suspended: %d excursions of scores, %.1f years of peers' work.", t.Proposed.Excursions, t.Proposed.PeerYears))
		}
	}
	if t.Enforce && t.Above > 0 {
		says = append(says, fmt.Sprintf("%s tasks still with a score of %.4g or more, from before scores counted or the limit was so low: each is suspended after the next look at what it did. shoal trust show --peers names them.", takes(t.Above), t.T))
	}
	if !t.Arbiter {
		says = append(says, "There is no arbiter: two more peers decide what is contested, so that two liars who are asked by chance have their way.")
	}
	if t.TrustRules.Newcomers == 0 {
		when := "While scores count and"
		if t.Enforce {
			when = "While"
		}
		says = append(says, when+" established peers are there, no newcomer will ever be tried: their share of tasks is 0, so that nobody who joins becomes established. shoal trust set --newcomers .03 gives them 3%.")
	}
	if t.Established == 0 {
		says = append(says, "No peer is established yet: all pages are provisional until peers of two accounts saw them alike. To vouch for peers of your own: shoal peer vouch PEER.")
	}
	if t.Suspended > 0 {
		says = append(says, fmt.Sprintf("%d suspended: look at the evidence, then uphold or pardon.", t.Suspended))
	}
	return append(says, "Pages that were stored before scores ran are provisional until another account sees them alike.")
}

// takes begins a sentence about peers that take something.
func takes(n int) string {
	if n == 1 {
		return "1 peer takes"
	}
	return fmt.Sprintf("%d peers take", n)
}

// Peers tells how far each peer is believed, those first against whom most is held, and how many more there are.
func (c Court) Peers(ctx context.Context) (out []PeerTrust, more int, err error) {
	if err := c.d.Live(); err != nil {
		return nil, 0, err
	}
	all, err := c.d.m.TrustPeers(ctx)
	byHand, herr := c.byHand(ctx)
	err = errors.Join(err, herr)
	out = []PeerTrust{}
	for i := range all[:min(len(all), maxTrusted)] {
		out = append(out, barred(peerTrustOf(&all[i]), byHand))
	}
	return out, len(all) - len(out), err
}

// byHand are the peers and accounts that an operator has banned, and no verdict.
func (c Court) byHand(ctx context.Context) (names []string, err error) {
	refused, err := c.d.Refused(ctx)
	for _, r := range refused {
		if r.Deliverer == "" {
			names = append(names, r.Name)
		}
	}
	return names, err
}

// barred adds to what the manager knows of a peer whether an operator has banned it.
func barred(p PeerTrust, byHand []string) PeerTrust {
	p.Barred = slices.ContainsFunc(byHand, func(name string) bool { return name != "" && (name == p.Peer || name == p.Account) })
	return p
}

func peerTrustOf(p *manager.PeerTrust) PeerTrust {
	var others []string
	for _, o := range p.Others {
		others = append(others, archive.DelivererName(uint64(o)))
	}
	return PeerTrust{
		Others: others, Undone: undoneSays(p.Undone),
		Peer: p.ID, Deliverer: archive.DelivererName(uint64(p.Peer)), Account: p.Account, Standing: p.Standing.String(), Suspect: p.Suspect, Forging: p.Scores[trust.Forging],
		Laziness: p.Scores[trust.Laziness], Checking: p.Scores[trust.Checking], Tasks: p.Tasks, Checks: p.Checks, Lost: p.Lost, Pardons: p.Pardons,
	}
}

// Evidence is what is held against a peer, without what was fetched.
func (c Court) Evidence(ctx context.Context, peer string) (PeerEvidence, error) {
	if err := c.d.Live(); err != nil {
		return PeerEvidence{}, err
	}
	p, cases, err := c.d.m.Evidence(ctx, peer)
	if err != nil {
		return PeerEvidence{}, err
	}
	byHand, err := c.byHand(ctx)
	if err != nil {
		return PeerEvidence{}, err
	}
	out := PeerEvidence{PeerTrust: barred(peerTrustOf(&p), byHand), Cases: []Case{}, More: p.MoreCases}
	for i := range cases {
		out.Cases = append(out.Cases, caseOf(&cases[i]))
	}
	return out, nil
}

// Case is one case with what each side saw.
func (c Court) Case(ctx context.Context, number string) (Case, error) {
	if err := c.d.Live(); err != nil {
		return Case{}, err
	}
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil {
		return Case{}, asks("%q is no number of a case: shoal peer evidence PEER lists them", number)
	}
	got, err := c.d.m.Case(ctx, n)
	switch {
	case errors.Is(err, evidence.ErrNoCase):
		return Case{}, asks("there is no case %s, or no more: shoal peer evidence PEER lists them", number)
	case err != nil:
		return Case{}, err
	}
	out := caseOf(&got)
	for side := evidence.Delivered; side <= evidence.Third; side++ {
		f := got.Side(side)
		if f == nil {
			continue
		}
		out.Sides = append(out.Sides, CaseSide{Side: side.String(), By: archive.DelivererName(uint64(f.By)), Fetched: f.Fetched, Status: f.Status, Final: f.Final, Bytes: f.Size,
			Body: textOf(f.Body), Cut: f.Error == "" && min(len(f.Body), maxSideText) < f.Size, Error: f.Error})
	}
	return out, nil
}

// textOf is the beginning of a body that people can read.
func textOf(body []byte) string { return string([]rune(string(body[:min(len(body), maxSideText)]))) }

func caseOf(c *archive.EvidenceCase) Case {
	return Case{
		Number: fmt.Sprintf("%016x", c.Number), URL: c.URL, Channel: uint64(c.About.Channel), Reason: c.About.Reason.String(), Means: c.About.Reason.Means(), Accused: archive.DelivererName(uint64(c.About.Accused)),
		Accuser: archive.DelivererName(uint64(c.About.Accuser)), Loser: archive.DelivererName(uint64(c.Loser)), Amount: c.Amount, Score: c.Score, Opened: c.Opened, Closed: c.Closed, Note: c.Note, Objection: c.Objection, Pardoned: c.Pardoned,
	}
}

// Uphold makes a suspension final.
func (c Court) Uphold(ctx context.Context, peer string) (PeerTrust, error) {
	if err := c.d.Live(); err != nil {
		return PeerTrust{}, err
	}
	p, err := c.d.m.Uphold(ctx, peer)
	return peerTrustOf(&p), err
}

// Pardon gives a suspended peer everything back: its membership, and what was withdrawn of what it delivered, unless that was purged.
func (c Court) Pardon(ctx context.Context, peer string) (out Pardoned, err error) {
	if err := c.d.Live(); err != nil {
		return out, err
	}
	p, err := c.d.m.Pardon(ctx, peer)
	if out.PeerTrust = peerTrustOf(&p); err != nil {
		return out, err
	}
	short, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	kept, err := c.d.PurgeCount(short, out.Deliverer)
	switch {
	case errors.Is(err, ErrAsk): // it has delivered nothing that is kept
	case err != nil:
		out.More = true // it is pardoned all the same
	default:
		out.Captures, out.More = kept.Captures, kept.More
	}
	return out, nil
}

// countFor is how long what a pardon gives back is counted.
const countFor = 2 * time.Second

// Vouch makes a peer established by the operator's word. It must be a member, or have had a task, as a misspelt name would be believed for good; but if ahead it has
// yet to join.
func (c Court) Vouch(ctx context.Context, peer string, ahead bool) error {
	if err := c.d.Live(); err != nil {
		return err
	}
	all, err := c.d.m.TrustPeers(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		p := peerTrustOf(&all[i])
		if p.Peer == "" || peer != p.Peer && peer != p.Deliverer {
			continue
		}
		if barred(p, bannedBy(c.d.cfg.Members)).Barred {
			return asks("%s is banned, by its id or its account: shoal peer unban lets it in again", peer)
		}
		if s := all[i].Standing; s == trust.Suspended || s == trust.Banned {
			return asks("%s is %s for what it delivered: look at it with shoal peer evidence %s; shoal peer pardon %s gives everything back", peer, p.Standing, p.Deliverer, p.Deliverer)
		}
		return c.d.m.Vouch(ctx, p.Peer)
	}
	if peer == "" {
		return asks("no peer is named")
	}
	if slices.Contains(bannedBy(c.d.cfg.Members), peer) {
		return asks("%s is banned: shoal peer unban lets it in again", peer)
	}
	members, err := c.d.Peers()
	if err != nil {
		return err
	}
	if !ahead && !slices.ContainsFunc(members, func(p Peer) bool { return p.ID == peer }) {
		return asks("no peer %q is known: shoal peer list names the members, shoal trust show --peers those that had a task", peer)
	}
	return c.d.m.Vouch(ctx, peer)
}
