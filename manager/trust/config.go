package trust

import (
	"errors"
	"fmt"
	"time"
)

// Config is the rules of a Machine. Default gives the measured ones.
type Config struct {
	// Enforce makes scores count: peers are suspended, deliveries held, newcomers kept few. False is the shadow: scores run, and nothing follows.
	Enforce bool
	// Arbiter says that the manager fetches contested pages itself. False: two more checkers decide.
	Arbiter bool
	// NextCrawl lets each crawl audit the one before it.
	NextCrawl bool
	// Audits lets other peers fetch pages again. False: only newcomers are audited.
	Audits bool

	T       float64 // score at which a peer is suspended
	Suspect float64 // score at which it is a suspect
	Hold    float64 // a loss above this holds the delivery
	Q       float64 // share of audits that honest peers lose before the arbiter
	Q2      float64 // the same if a second checker agrees with the first
	Lie     float64 // share of pages that a liar worth finding forges
	Busy    float64 // part of a page's change rate, times the delay, that loses an audit
	Dynamic float64 // added to Q for a dynamic page

	Revert       float64 // charge for a version that the crawls before and after contradict
	RevertLinks  float64 // the same with hosts linked to that only this version has
	Implausible  float64 // charge for an "unchanged" after a change
	AllUnchanged float64 // charge for a task whose dynamic pages were all "unchanged"
	DriftValid   float64 // down for a valid audit
	DriftNext    float64 // down for a page that the next crawl confirms
	LostCheck    float64 // charge for a check that the arbiter contradicts: honest checkers meet walls and captchas too
	DriftCheck   float64 // down for a check that agreed

	TaskCap, DomainCap, DomainCap2 float64 // most that a task and a domain add; the last with a second checker
	ManyLost                       float64 // times a charge on a channel where ManyPeers unconvicted peers have lost
	ManyPeers                      int

	Tasks     int     // of a probation
	Checks    int     // valid ones of a probation
	Newcomers float64 // share of tasks that all newcomers together may have
	Prefix    int     // accounts of an address prefix that may have tasks

	PerTask, PerNew, PerWatch int     // audited pages of a task: of an established peer, a newcomer, on a watched channel
	WatchValid                int     // of PerWatch: accepted only with so many valid
	Beside                    float64 // share of pages audited beside
	SuspectShare              float64 // share of pages audited of a suspect
	Weight                    int     // of a changed page in the choice
	LookBack                  int     // older pages of a new suspect that are looked at
	WithinAudit               time.Duration
	Watch                     time.Duration // of a channel, and the time in which two losers make it watched
	Slack                     time.Duration // by which servers' dates may be wrong
	MostReverts, MostStale    int           // arbitrated of a task
}

// Default returns the measured rules, in shadow.
func Default() Config {
	return Config{
		Arbiter: true, NextCrawl: true, Audits: true,
		T: 18, Suspect: 4, Hold: 1.5, Q: 2e-3, Q2: 3e-4, Lie: .03, Busy: .75, Dynamic: .005,
		Revert: 1.8, RevertLinks: 3.9, Implausible: 4, AllUnchanged: 5, DriftValid: .03, DriftNext: .005, LostCheck: 1.5, DriftCheck: .15,
		TaskCap: 5, DomainCap: 5, DomainCap2: 6, ManyLost: .3, ManyPeers: 3,
		Tasks: 10, Checks: 40, Newcomers: .03, Prefix: 2,
		PerTask: 1, PerNew: 5, PerWatch: 5, WatchValid: 4, Beside: .002, SuspectShare: .2, Weight: 4, LookBack: 30,
		WithinAudit: 5 * time.Minute, Watch: 14 * 24 * time.Hour, Slack: 2 * time.Minute, MostReverts: 3, MostStale: 2,
	}
}

// ErrConfig is wrapped for rules that cannot be kept.
var ErrConfig = errors.New("trust: bad rules")

// Validate reports what is wrong with c.
func (c *Config) Validate() error {
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !(c.T > c.DomainCap2) || c.T > maxScore:
		return fmt.Errorf("%w: a peer is to be suspended at a score of %v: must be above %v, which one domain may add, as its owner could have any peer suspended, and at most %v", ErrConfig, c.T, c.DomainCap2, maxScore)
	case !(c.Suspect > 0 && c.Suspect <= c.T):
		return fmt.Errorf("%w: a suspect from %v on: must be above 0 and at most T, %v", ErrConfig, c.Suspect, c.T)
	case !(c.Q > 0 && c.Q < 1 && c.Q2 > 0 && c.Q2 <= c.Q && c.Lie > 0 && c.Lie < 1):
		return fmt.Errorf("%w: q %v, with a second checker %v, lie %v: must be shares, the second not above the first", ErrConfig, c.Q, c.Q2, c.Lie)
	case !(c.TaskCap > 0 && c.DomainCap > 0 && c.DomainCap2 >= c.DomainCap):
		return fmt.Errorf("%w: caps %v a task, %v a domain, %v with a second checker: must be above 0, the last not below the second", ErrConfig, c.TaskCap, c.DomainCap, c.DomainCap2)
	case !share(c.Newcomers):
		return fmt.Errorf("%w: newcomers' share of tasks is %v: must be 0 to 1", ErrConfig, c.Newcomers)
	case !share(c.Beside):
		return fmt.Errorf("%w: the share of pages that are fetched again beside is %v: must be 0 to 1", ErrConfig, c.Beside)
	case !share(c.SuspectShare):
		return fmt.Errorf("%w: the share of a suspect's pages that are fetched again is %v: must be 0 to 1", ErrConfig, c.SuspectShare)
	case !share(c.ManyLost):
		return fmt.Errorf("%w: where many have lost, %v of a charge counts: must be 0 to 1", ErrConfig, c.ManyLost)
	case c.PerTask < 0 || c.PerTask > MostAudits:
		return fmt.Errorf("%w: %d pages of each task are to be fetched again: must be 0 to %d", ErrConfig, c.PerTask, MostAudits)
	case c.PerNew < 1 || c.PerNew > MostAudits:
		return fmt.Errorf("%w: %d pages of each newcomer's task are to be fetched again: must be 1 to %d", ErrConfig, c.PerNew, MostAudits)
	case c.PerWatch < 1 || c.WatchValid < 1 || c.WatchValid > c.PerWatch || c.PerWatch > 255:
		return fmt.Errorf("%w: audits of a task on watch %d with %d valid: must be 1 to 255, and at least as many as must be valid", ErrConfig, c.PerWatch, c.WatchValid)
	case c.Tasks < 0 || c.Checks < 0 || c.Weight < 1 || c.Prefix < 1 || c.LookBack < 0 || c.ManyPeers < 1 || c.ManyPeers > losersKept:
		return fmt.Errorf("%w: probation of %d tasks and %d checks, weight %d, %d accounts a prefix, %d looked back, %d peers", ErrConfig, c.Tasks, c.Checks, c.Weight, c.Prefix, c.LookBack, c.ManyPeers)
	case c.Watch < 0 || c.Watch > maxWatch || c.Slack < 0 || c.WithinAudit <= 0:
		return fmt.Errorf("%w: watch %v, slack %v, audits within %v: watch at most %v", ErrConfig, c.Watch, c.Slack, c.WithinAudit, maxWatch)
	}
	return nil
}

// MostAudits is how many pages of one task can be asked for again. A host has no more fetched at once, however much was delivered before.
const MostAudits = 200

const (
	maxScore = 1000
	maxWatch = 100 * 24 * time.Hour
)
