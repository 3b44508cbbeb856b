package manager

import (
	"time"

	"shoal/recrawl"
)

// plan lets a strategy that plans do so on a copy of the facts, beside the loop; its plan is taken up on the loop, unless the strategy was changed meanwhile.
func (m *Manager) plan(now time.Time) {
	strategy := m.sched.Strategy()
	p, ok := strategy.(recrawl.Planner)
	tick := m.clock.At(now)
	if !ok || m.planning || !p.PlanDue(tick) {
		return
	}
	m.planning = true
	facts := m.sched.Snapshot()
	m.wg.Go(func() {
		adopt, err := p.Plan(m.life, tick, facts)
		_ = m.do(m.life, func(time.Time) { // fails only when the manager ends
			m.planning = false
			switch {
			case err != nil:
				m.setNotice("plan", "The strategy's plan could not be made; it goes on without: "+err.Error())
				m.log.Error("plan", "strategy", strategy.Name(), "err", err)
			case m.sched.Strategy() == strategy:
				m.setNotice("plan", "")
				adopt()
				m.sched.Rerank()
			}
		})
	})
}
