package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
)

// The environment of TestAttacks, which `make hostile` sets.
const (
	attacksEnv     = "SHOAL_ATTACKS"         // names of attacks with commas between them, or all
	attacksFileEnv = "SHOAL_HOSTILE"         // where the rows go, as JSON
	attackSpanEnv  = "SHOAL_HOSTILE_SECONDS" // length of each attack; default 45
)

// together is the name of the run of ten attacks at once, by ten of fifty peers.
const together = "together"

var tenAttacks = []string{"stall", "swallow", "steal", "spin", "memory", "frontier", "future", "block", "forge-digest", "gone"}

// attackRow is the cost of one attack.
type attackRow struct {
	Attack       string  `json:"attack"`
	Share        float64 `json:"share"` // of the peers that attack
	Peers        int     `json:"peers"`
	UpdatesMin   float64 `json:"updates_per_min"` // that honest peers made under attack
	UpdatesRatio float64 `json:"updates_ratio"`   // to those that the honest peers of a calm network made at the same time
	BeforeRatio  float64 `json:"before_ratio"`    // the same before the attackers came: how far chance goes
	Attracted    float64 `json:"attracted"`       // tasks claimed by an attacker, over the mean of all peers; only for attacks that claim tasks
	Ended        int64   `json:"attackers_updates"`
	GivenUp      int     `json:"given_up"` // channels, after ban and purge
	Frozen       int     `json:"frozen"`   // hosts that no task may visit for an hour, likewise
	Blocked      int     `json:"blocked"`  // hosts, likewise
	Forged       int     `json:"forged"`   // wrong pages that the archive showed when the attack ended
	Confirmed    int     `json:"forged_confirmed"`
	ForgedLeft   int     `json:"forged_left"` // wrong pages after ban and purge
	AfterBan     int64   `json:"pages_after_ban"`
	MemoryMB     float64 `json:"memory_mb"`    // the manager's most
	MemoryRatio  float64 `json:"memory_ratio"` // to the most that it needed before the attackers came, or the calm network's manager at the same time
	RecoveredS   float64 `json:"recovered_s"`  // from the ban until the honest peers make 85% of the calm ones; -1: not within the run
}

// TestAttacks runs attacks on a live network and records the cost of each. First each attack runs alone, with one
// attacker among five peers, then ten together, with ten attackers among fifty peers. What honest peers make under
// attack is compared with what those of a calm network, without attackers, make at the same time on the same machine.
// More is due than the honest peers can crawl, so that they lose nothing to an attacker that merely does a part of the
// work.
func TestAttacks(t *testing.T) {
	names := os.Getenv(attacksEnv)
	if names == "" {
		t.Skipf("takes minutes: set %s to all or to names of attacks, or run make hostile", attacksEnv)
	}
	span := 45 * time.Second
	if s := os.Getenv(attackSpanEnv); s != "" {
		d, err := time.ParseDuration(s + "s")
		if err != nil {
			t.Fatalf("%s=%s: %v", attackSpanEnv, s, err)
		}
		span = d
	}
	var alone []rogue.Attack
	all := names == "all"
	if all {
		alone = rogue.Attacks()
	}
	for name := range strings.SplitSeq(names, ",") {
		if name == "all" {
			continue
		}
		if name == together {
			all = true
			continue
		}
		alone = append(alone, attackNamed(t, name))
	}
	var rows []attackRow
	var mu sync.Mutex
	add := func(r attackRow) {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, r)
		if path := os.Getenv(attacksFileEnv); path != "" {
			b, err := json.MarshalIndent(rows, "", "  ")
			if err == nil {
				err = os.WriteFile(path, append(b, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(alone) > 0 {
		t.Run("one of five", func(t *testing.T) {
			few := siege{honest: 4, attackers: 1, gap: 500 * time.Millisecond, hosts: 200, span: span}
			calm := openFortress(t, few) // not attacked, to compare with
			for _, a := range alone {
				t.Run(a.Name, func(t *testing.T) {
					t.Parallel()
					add(few.run(t, a.Name, []rogue.Attack{a}, calm))
				})
			}
		})
	}
	if all {
		t.Run("ten of fifty", func(t *testing.T) {
			many := siege{honest: 40, attackers: 10, gap: 2500 * time.Millisecond, hosts: 400, span: 2 * span}
			var ten []rogue.Attack
			for _, name := range tenAttacks {
				ten = append(ten, attackNamed(t, name))
			}
			add(many.run(t, together, ten, openFortress(t, many)))
		})
	}
	for _, r := range rows {
		t.Log(r.line())
	}
}

func attackNamed(t *testing.T, name string) rogue.Attack {
	t.Helper()
	a, err := rogue.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *attackRow) line() string {
	return fmt.Sprintf("%-16s updates x%.2f (%.0f a minute; x%.2f before), attracted x%.1f, memory x%.2f (%.0f MB), given up %d, frozen %d, blocked %d, wrong pages %d, confirmed %d, left %d, after the ban %d, recovered after %.0f s",
		r.Attack, r.UpdatesRatio, r.UpdatesMin, r.BeforeRatio, r.Attracted, r.MemoryRatio, r.MemoryMB, r.GivenUp, r.Frozen, r.Blocked, r.Forged, r.Confirmed, r.ForgedLeft, r.AfterBan, r.RecoveredS)
}

// siege is the size of a run.
type siege struct {
	honest, attackers int // peers
	hosts             int // more than the honest peers can crawl as often as is due
	// gap is the honest peers' wait between two requests to a host. It, and not the machine, bounds what they make.
	gap     time.Duration
	span    time.Duration
	sizes   []int   // pages of each host; none: siegePages
	bytes   int     // of a page in the mean; 0: 2,000
	threads int     // of each honest peer, which may have as many tasks waiting; 0: 5
	odd     float64 // share of the hosts that misbehave; only with sizes
	trouble pond.Trouble
	lease   string   // empty: 12s, so that what an attacker holds comes back soon
	flags   []string // of the manager, further ones
}

const (
	siegeWarm     = 45 * time.Second // before attackers come; until each host was crawled once
	siegeConfirm  = 20 * time.Second // after the attackers left; honest peers then visit what they forged
	banActs       = 2 * time.Second
	recoverSpan   = 10 * time.Second
	recoverLimit  = 90 * time.Second
	recoveredFrom = .85
)

// run measures an attack on a network, beside a calm one of the same size.
func (s siege) run(t *testing.T, name string, attacks []rogue.Attack, calm *fortress) (row attackRow) {
	row = attackRow{Attack: name, Peers: s.honest + s.attackers, RecoveredS: -1}
	row.Share = float64(s.attackers) / float64(row.Peers)
	f := openFortress(t, s)
	quiet := calm.watchMemory()
	f.pause(siegeWarm)
	own := f.watchMemory()
	_, row.BeforeRatio = f.beside(calm, nil, s.span)
	before := own()
	crew, leave := f.invade(s.attackers, attacks)
	f.pause(s.span / 3) // in which the attack takes hold
	claimed := f.accepted()
	own = f.watchMemory()
	row.UpdatesMin, row.UpdatesRatio = f.beside(calm, crew, s.span)
	row.MemoryMB = own()
	row.MemoryRatio = row.MemoryMB / max(before, quiet(), 1) // what a manager needs goes up and down by a third
	if took := float64(f.accepted()-claimed) / float64(row.Peers); took > 0 {
		most := 0.
		for _, v := range crew {
			most = math.Max(most, float64(v.Stats.Claimed.Load()))
		}
		row.Attracted = most / (took * (4. / 3)) // attackers are counted from the first moment
	}
	for _, v := range crew {
		row.Ended += v.Stats.Updates.Load()
	}
	f.judge(&row, crew, leave, calm)
	t.Log(row.line())
	return row
}

// beside is how many updates a minute honest peers make in a span, and the ratio to those of a calm network.
func (f *fortress) beside(calm *fortress, crew []*rogue.Volunteer, span time.Duration) (rate, ratio float64) {
	before, quiet, began := f.updates(crew), calm.updates(nil), time.Now()
	f.pause(span)
	made := float64(f.updates(crew) - before)
	return made / time.Since(began).Minutes(), made / max(float64(calm.updates(nil)-quiet), 1)
}

// judge ends an attack: it bans the attackers, purges what they delivered, and counts what is left.
func (f *fortress) judge(row *attackRow, crew []*rogue.Volunteer, leave func(), calm *fortress) {
	wrong := f.wrong()
	row.Forged = len(wrong)
	if row.Forged > 0 {
		f.pause(siegeConfirm)
		again := f.wrong()
		for url := range wrong {
			if again[url] {
				row.Confirmed++
			}
		}
	}
	banned := time.Now()
	for _, v := range crew {
		f.shoal("peer", "ban", v.ID(), "--unknown") // some attack before they are listed
	}
	f.pause(banActs)
	stored := int64(0)
	for _, v := range crew {
		stored -= v.Stats.Pages.Load()
	}
	f.pause(recoverSpan)
	for _, v := range crew {
		stored += v.Stats.Pages.Load()
	}
	row.AfterBan = stored
	leave()
	for _, v := range crew {
		if v.Stats.Claimed.Load() > 0 { // else the archive does not know it
			f.shoal("peer", "purge", "--yes", v.ID())
		}
	}
	for end := time.Now().Add(recoverLimit); time.Now().Before(end); {
		at := time.Now()
		if _, ratio := f.beside(calm, crew, recoverSpan); ratio >= recoveredFrom {
			row.RecoveredS = at.Sub(banned).Seconds()
			break
		}
	}
	row.ForgedLeft = len(f.wrong())
	row.GivenUp, row.Frozen, row.Blocked = f.harm()
}
