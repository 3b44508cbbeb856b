package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// CreditOf reads what an account was credited with, week by week, and its place among the others, which may be rankedFor old.
func (p *Pages) CreditOf(ctx context.Context, account string) (out AccountCredit, err error) {
	out.Account, out.Weeks = account, []Week{}
	number := p.ledger.DelivererNumber(account)
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		withheld, err := p.withheld(ctx, snap)
		if err != nil {
			return err
		}
		out.Withheld = withheld[number]
		if out.Profile, err = profile(snap, number); err != nil {
			return err
		}
		r, err := p.ranked(ctx, snap, withheld)
		if err != nil {
			return err
		}
		out.Rank, out.Ranked, out.Team = r.places[number], len(r.places), r.teams[NameKey(out.Profile.Team)]
		return creditOf(ctx, snap, number, func(week uint32, e Earned) {
			if n := len(out.Weeks); n == 0 || out.Weeks[n-1].Name != weekName(week) {
				out.Weeks = append(out.Weeks, Week{Name: weekName(week), Monday: monday(week)})
			}
			out.Weeks[len(out.Weeks)-1].add(e)
			out.Sum.add(e)
		})
	})
	if err != nil {
		return AccountCredit{}, fmt.Errorf("credit of %s: %w", account, err)
	}
	slices.Reverse(out.Weeks)
	if out.Withheld {
		out.Sum, out.Rank = Earned{}, 0
	}
	return out, nil
}

// Holder is the number by which certificates of contribution name an account. Nothing else tells it, so that a certificate leads to no captures.
func (p *Pages) Holder(account string) uint64 { return p.ledger.DelivererNumber("holder " + account) }

// ranking is who has how much, ever.
type ranking struct {
	at     time.Time
	places map[uint64]int       // of accounts
	teams  map[string]TeamPlace // by NameKey
}

// rankedFor is how long a ranking is told again: it goes through all credits.
const rankedFor = 10 * time.Second

// ranked ranks accounts and teams.
func (p *Pages) ranked(ctx context.Context, snap ledger.Snapshot, withheld map[uint64]bool) (*ranking, error) {
	p.ranking.Lock()
	defer p.ranking.Unlock()
	now := p.cfg.Clock()
	if r := p.lastRanking; r != nil && now.Sub(r.at).Abs() < rankedFor {
		return r, nil
	}
	by := map[uint64]*Earned{}
	if err := eachCredit(ctx, snap, 0, func(_ uint32, of uint64, e Earned) {
		if withheld[of] {
			return
		}
		if by[of] == nil {
			by[of] = &Earned{}
		}
		by[of].add(e)
	}); err != nil {
		return nil, err
	}
	r := &ranking{at: now, places: make(map[uint64]int, len(by)), teams: map[string]TeamPlace{}}
	accounts, all := make([]row[uint64], 0, len(by)), teams{}
	for number, e := range by {
		accounts = append(accounts, row[uint64]{number, *e})
		f, err := profile(snap, number)
		if err != nil {
			return nil, err
		}
		if f.Public && f.Team != "" {
			all.add(f.Team, *e)
		}
	}
	rank(accounts, func(of uint64, _ Earned, place int) { r.places[of] = place })
	sums := make([]row[string], 0, len(all))
	for key, t := range all {
		sums = append(sums, row[string]{key, t.Earned})
	}
	rank(sums, func(of string, e Earned, place int) { r.teams[of] = TeamPlace{e, place, len(sums)} })
	p.lastRanking = r
	return r, nil
}

// row is one account or team.
type row[K comparable] struct {
	of K
	Earned
}

// rank tells the place of each by its pages. Those with equal pages share a place.
func rank[K comparable](rows []row[K], tell func(of K, e Earned, place int)) {
	slices.SortFunc(rows, func(x, y row[K]) int { return cmp.Compare(y.Pages, x.Pages) })
	place := 0
	for i := range rows {
		if i == 0 || rows[i].Pages != rows[i-1].Pages {
			place = i + 1
		}
		tell(rows[i].of, rows[i].Earned, place)
	}
}

// creditOf calls do for each stored credit of an account, in the order of the weeks. It looks into each week that has any.
func creditOf(ctx context.Context, snap ledger.Snapshot, account uint64, do func(week uint32, e Earned)) error {
	for from := uint32(0); ; {
		week, any := uint32(0), false
		err := snap.Scan([]byte{schema.Credit}, schema.CreditKey(from, 0, 0), false, func(key, _ []byte) (bool, error) {
			week, _ = schema.CreditOf(key)
			any = true
			return false, nil
		})
		if err != nil || !any {
			return err
		}
		err = snap.Scan([]byte{schema.Credit}, schema.CreditKey(week, account, 0), true, func(key, value []byte) (bool, error) {
			if w, of := schema.CreditOf(key); w != week || of != account {
				return false, nil
			}
			var m pb.Credit
			if err := schema.Decode(value, &m); err != nil {
				return false, err
			}
			do(week, Earned{m.Pages, m.Bytes})
			return true, ctx.Err()
		})
		if err != nil {
			return err
		}
		from = week + 1
	}
}

// firstCredit is the first week of an account's credits; 0: it has none.
func firstCredit(snap ledger.Snapshot, account uint64) (first uint32, err error) {
	return first, creditOf(context.Background(), snap, account, func(week uint32, _ Earned) {
		if first == 0 {
			first = week
		}
	})
}

// eachCredit calls do for each stored credit from a week on, in the order of the weeks.
func eachCredit(ctx context.Context, snap ledger.Snapshot, from uint32, do func(week uint32, account uint64, e Earned)) error {
	m := new(pb.Credit)
	return snap.Scan([]byte{schema.Credit}, schema.CreditKey(from, 0, 0), true, func(key, value []byte) (bool, error) {
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		week, account := schema.CreditOf(key)
		do(week, account, Earned{m.Pages, m.Bytes})
		return true, ctx.Err()
	})
}

// withheld are the accounts that are banned or have a suspended peer.
func (p *Pages) withheld(ctx context.Context, snap ledger.Snapshot) (map[uint64]bool, error) {
	out, err := p.outlaws.of(ctx, p, snap)
	if err != nil {
		return nil, err
	}
	return out, snap.Scan([]byte{schema.Suspension}, nil, true, func(key, value []byte) (bool, error) {
		if len(key) != len(schema.Key(schema.Suspension, 0)) {
			return true, nil
		}
		var m pb.Suspension
		var d pb.Deliverer
		if err := schema.Decode(value, &m); err != nil {
			return false, err
		}
		_, err := ledger.Get(snap, schema.Key(schema.Deliverer, schema.Number(key, 0)), &d)
		if !m.Pardon && d.Account != "" {
			out[p.ledger.DelivererNumber(d.Account)] = true
		}
		return true, err
	})
}

// outlaws are the accounts that operators have banned, or of which they have banned each peer that has delivered. They are looked up again when other names are banned,
// and now and then, since an account may have sent another peer meanwhile.
type outlaws struct {
	mu       sync.Mutex // guards all below
	at       time.Time
	names    []string
	accounts map[uint64]bool
}

// of returns them, in a map of the caller's own.
func (o *outlaws) of(ctx context.Context, p *Pages, snap ledger.Snapshot) (map[uint64]bool, error) {
	if p.cfg.Banned == nil {
		return map[uint64]bool{}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	names, now := p.cfg.Banned(), p.cfg.Clock()
	if o.accounts == nil || !slices.Equal(names, o.names) || now.Sub(o.at).Abs() >= rankedFor {
		accounts, err := p.bannedAccounts(ctx, snap, names)
		if err != nil {
			return nil, err
		}
		o.at, o.names, o.accounts = now, slices.Clone(names), accounts
	}
	return maps.Clone(o.accounts), nil
}

// bannedAccounts are the accounts among names, and those of which each peer that has delivered is among them.
func (p *Pages) bannedAccounts(ctx context.Context, snap ledger.Snapshot, names []string) (map[uint64]bool, error) {
	out, peers, shared := map[uint64]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range names {
		number := p.ledger.DelivererNumber(name)
		out[number] = true // a peer that joined without an invite is an account too
		var d pb.Deliverer
		if _, err := ledger.Get(snap, schema.Key(schema.Deliverer, number), &d); err != nil {
			return nil, err
		}
		if peers[name] = true; d.Account != "" && d.Account != name {
			shared[d.Account] = true
		}
	}
	if len(shared) > 0 {
		var d pb.Deliverer
		if err := snap.Scan([]byte{schema.Deliverer}, nil, true, func(_, value []byte) (bool, error) {
			d.Reset()
			if err := schema.Decode(value, &d); err != nil {
				return false, err
			}
			if !peers[d.Peer] {
				delete(shared, d.Account)
			}
			return true, ctx.Err()
		}); err != nil {
			return nil, err
		}
	}
	for account := range shared {
		out[p.ledger.DelivererNumber(account)] = true
	}
	return out, nil
}

func profile(snap ledger.Snapshot, account uint64) (Profile, error) {
	var m pb.Profile
	_, err := ledger.Get(snap, schema.Key(schema.Profile, account), &m)
	return Profile{Nickname: m.Nickname, Team: m.Team, Public: m.Public}, err
}

func monday(week uint32) time.Time { return time.Unix(int64(week)*86400, 0).UTC() }

// weekName is how ISO 8601 writes a week.
func weekName(week uint32) string {
	year, n := monday(week).ISOWeek()
	return fmt.Sprintf("%d-W%02d", year, n)
}
