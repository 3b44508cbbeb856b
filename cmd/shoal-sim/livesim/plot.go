package livesim

import (
	"fmt"
	"math"

	"shoal/cmd/shoal-sim/figure"
)

// plotRows draws freshness and idle time over time: two figures for each world, and freshness by importance where channels count differently. What the simulator
// foretells is dashed beside a run, and stands alone where no network was run.
func plotRows(dir string, rows []Row) error {
	type world struct {
		load  float64
		churn bool
		scene string
		seed  uint64
	}
	of := func(r *Row) world { return world{r.Load, r.Churn, r.Scene, r.Seed} }
	done := map[world]bool{}
	for i := range rows {
		w := of(&rows[i])
		if done[w] {
			continue
		}
		done[w] = true
		name := fmt.Sprintf("live-load%v-seed%d", w.load, w.seed)
		if w.churn {
			name += "-churn"
		}
		if w.scene != "none" && w.scene != "" {
			name += "-" + w.scene
		}
		for _, p := range pictures(w.scene) {
			f := figure.New(p.title, "minutes", "share")
			for k := i; k < len(rows); k++ {
				if of(&rows[k]) != w {
					continue
				}
				if err := rows[k].draw(f, p.of); err != nil {
					return err
				}
			}
			if _, err := f.Save(dir, name+"-"+p.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// picture is a figure of a world.
type picture struct {
	name, title string
	of          func([]sample) (x, y []float64)
}

func pictures(scene string) []picture {
	all := []picture{
		{"fresh", "Channels that are fresh in truth", func(s []sample) (x, y []float64) { return overTime(s, func(s *sample) float64 { return s.fresh }) }},
		{"idle", "Thread time without a task while something is stale", idleTime},
	}
	if scene == "weights" {
		all = append(all, picture{"weight", "Channels that are fresh in truth, by importance", func(s []sample) (x, y []float64) {
			return overTime(s, func(s *sample) float64 { return s.freshWeight })
		}})
	}
	return all
}

func overTime(series []sample, of func(*sample) float64) (x, y []float64) {
	for i := range series {
		x, y = append(x, series[i].at/60), append(y, of(&series[i]))
	}
	return x, y
}

const idleOver = 10 // seconds that a point of idle time is of

func idleTime(series []sample) (x, y []float64) {
	for i := idleOver; i < len(series); i++ {
		s, b := series[i], series[i-idleOver]
		x, y = append(x, s.at/60), append(y, (s.missed-b.missed)/math.Max(s.threads-b.threads, 1))
	}
	return x, y
}

func (r *Row) draw(f *figure.Figure, of func([]sample) (x, y []float64)) error {
	sim, simulated := of(r.foretold)
	if r.Measured == nil {
		return f.Line(r.Strategy+", simulated", sim, simulated)
	}
	at, share := of(r.series)
	if err := f.Line(r.Strategy, at, share); err != nil || len(sim) == 0 {
		return err
	}
	return f.Beside(sim, simulated)
}
