package limit

import (
	"slices"
	"time"
)

// ends says how long the limits that pause f will do so, as far as that can be known: windows and budgets end by the clock, while a policy
// that turns the peer off does not. spentDay and spentMonth tell which budgets are used up. The caller holds l.mu.
func (l *Limits) ends(now time.Time, spentDay, spentMonth bool) time.Time {
	var next []time.Time // moments at which something ends
	var day, month time.Time
	if l.usage != nil {
		d, m := l.usage.Times(now)
		day, month = d.Ends, m.Ends
	}
	if spentDay {
		next = append(next, day)
	}
	if spentMonth {
		next = append(next, month)
	}
	add := func(ws []Window) {
		for i := range ws {
			if s, err := ws[i].parse(); err == nil && ws[i].Pause {
				for d := range 9 { // a week, and the day before and after
					next = append(next, time.Date(now.Year(), now.Month(), now.Day()+d, 0, s.to, 0, 0, now.Location()))
				}
			}
		}
	}
	add(l.user.Windows)
	for i := range l.policies {
		add(l.policies[i].policy.Windows)
	}
	slices.SortFunc(next, time.Time.Compare)
	for _, t := range next {
		if !t.After(now) || spentDay && t.Before(day) || spentMonth && t.Before(month) {
			continue
		}
		f := l.own(t)
		for i := range l.policies {
			f.obey(t, &l.policies[i].policy, "")
		}
		if f.Paused == "" {
			return t
		}
	}
	return time.Time{}
}
