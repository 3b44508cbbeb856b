package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

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
	Before       float64 `json:"before_per_min"`  // that they made before the attackers came
	UpdatesRatio float64 `json:"updates_ratio"`   // of the two
	Attracted    float64 `json:"attracted"`       // tasks claimed by an attacker, over the mean of all peers; only for attacks that claim tasks
	Ended        int64   `json:"attackers_updates"`
	GivenUp      int     `json:"given_up"` // channels, after ban and purge
	Frozen       int     `json:"frozen"`   // hosts that no task may visit for an hour, likewise
	Blocked      int     `json:"blocked"`  // hosts, likewise
	Forged       int     `json:"forged"`   // wrong pages that the archive showed when the attack ended
	Confirmed    int     `json:"forged_confirmed"`
	ForgedLeft   int     `json:"forged_left"` // wrong pages after ban and purge
	AfterBan     int64   `json:"pages_after_ban"`
	MemoryMB     float64 `json:"memory_mb"` // the manager's most
	MemoryRatio  float64 `json:"memory_ratio"`
	RecoveredS   float64 `json:"recovered_s"` // from the ban until the honest peers reach 85% again; -1: not within the run
}

// TestAttacks runs attacks on a live network and records the cost of each. First each attack runs alone, with one
// attacker among five peers, then ten together, with ten attackers among fifty peers. What honest peers make under
// attack is compared with what the same peers made just before. More is due than they can crawl, so that they lose
// nothing to an attacker that merely does a part of the work. A run without attackers shows how far chance goes.
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
	add := func(r attackRow) {
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
		few := siege{honest: 4, attackers: 1, threads: 5, hosts: 200, span: span}
		none := few.run(t, "none", nil, 0)
		add(none)
		for _, a := range alone {
			add(few.run(t, a.Name, []rogue.Attack{a}, none.MemoryMB))
		}
	}
	if all {
		many := siege{honest: 40, attackers: 10, threads: 1, hosts: 400, span: 2 * span}
		none := many.run(t, "none of fifty", nil, 0)
		add(none)
		var ten []rogue.Attack
		for _, name := range tenAttacks {
			ten = append(ten, attackNamed(t, name))
		}
		add(many.run(t, together, ten, none.MemoryMB))
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
	return fmt.Sprintf("%-16s updates x%.2f (%.0f a minute, %.0f before), attracted x%.1f, memory x%.2f (%.0f MB), given up %d, frozen %d, blocked %d, wrong pages %d, confirmed %d, left %d, after the ban %d, recovered after %.0f s",
		r.Attack, r.UpdatesRatio, r.UpdatesMin, r.Before, r.Attracted, r.MemoryRatio, r.MemoryMB, r.GivenUp, r.Frozen, r.Blocked, r.Forged, r.Confirmed, r.ForgedLeft, r.AfterBan, r.RecoveredS)
}

// siege is the size of a run.
type siege struct {
	honest, attackers int // peers
	threads           int // of each honest peer
	hosts             int // more than the honest peers can crawl as often as is due
	span              time.Duration
}

const (
	siegeWarm     = 45 * time.Second // before attackers come; until each host was crawled once
	siegeConfirm  = 20 * time.Second // after the attackers left; honest peers then visit what they forged
	banActs       = 2 * time.Second
	recoverSpan   = 10 * time.Second
	recoverLimit  = 90 * time.Second
	recoveredFrom = .85
)

// run measures one attack, or none. memory is what the manager needs without attackers; zero: not known.
func (s siege) run(t *testing.T, name string, attacks []rogue.Attack, memory float64) (row attackRow) {
	row = attackRow{Attack: name, Peers: s.honest, RecoveredS: -1}
	t.Run(name, func(t *testing.T) {
		f := openFortress(t, s)
		f.pause(siegeWarm)
		row.Before = f.rate(nil, s.span)
		var crew []*rogue.Volunteer
		var leave func()
		if len(attacks) > 0 {
			row.Peers += s.attackers
			row.Share = float64(s.attackers) / float64(row.Peers)
			crew, leave = f.invade(s.attackers, attacks)
		}
		f.pause(s.span / 3) // in which the attack takes hold
		claimed := f.accepted()
		watched := f.watchMemory()
		row.UpdatesMin = f.rate(crew, s.span)
		row.MemoryMB = watched()
		row.UpdatesRatio, row.MemoryRatio = row.UpdatesMin/max(row.Before, 1), row.MemoryMB/max(memory, 1)
		if len(attacks) == 0 {
			row.MemoryRatio = 1
			t.Log(row.line())
			return
		}
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
		f.judge(&row, crew, leave)
		t.Log(row.line())
	})
	return row
}

// rate is how many updates a minute honest peers make in a span.
func (f *fortress) rate(crew []*rogue.Volunteer, span time.Duration) float64 {
	before, began := f.updates(crew), time.Now()
	f.pause(span)
	return float64(f.updates(crew)-before) / time.Since(began).Minutes()
}

// judge ends an attack: it bans the attackers, purges what they delivered, and counts what is left.
func (f *fortress) judge(row *attackRow, crew []*rogue.Volunteer, leave func()) {
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
		f.shoal("peer", "ban", v.ID())
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
		f.shoal("peer", "purge", "--yes", v.ID())
	}
	for end := time.Now().Add(recoverLimit); time.Now().Before(end); {
		at := time.Now()
		if f.rate(crew, recoverSpan) >= recoveredFrom*row.Before {
			row.RecoveredS = at.Sub(banned).Seconds()
			break
		}
	}
	row.ForgedLeft = len(f.wrong())
	row.GivenUp, row.Frozen, row.Blocked = f.harm()
}
