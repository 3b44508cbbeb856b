package trust

import (
	"fmt"
	"slices"
	"testing"

	"shoal/channel"
)

// TestOlderPagesAddOneTask has a suspect lose by older pages of twelve channels. All of them add no more than one task may, so that who met captchas on some days is not
// suspended for having been looked at.
func TestOlderPagesAddOneTask(t *testing.T) {
	for _, old := range []bool{true, false} {
		s := newStage(t, 1)
		s.m.cfg.Enforce = true
		for n := range Peer(3) {
			s.m.Join(n+1, Account(n+1), Prefix(n+1))
			s.m.Vouch(n + 1)
		}
		suspended := false
		for n := range 12 {
			c := Case{Reason: LostAudit, URL: uint64(n + 1), Channel: channel.ID(n + 1), Domain: uint64(n+1) << 32, Accused: 1, Accuser: 2, At: s.now.Unix() - int64(n), Old: old}
			e := Evidence{Case: c, Page: &Page{}, Delivered: content(fmt.Sprint("lie", n)), Checked: content("true")}
			acts := s.m.Ruled(s.now, &Ruling{Evidence: e, Arbiter: content("true")})
			suspended = suspended || slices.ContainsFunc(acts, func(a Act) bool { return a.Kind == Suspend })
		}
		i, _ := s.m.Peer(1)
		if old == suspended || old && i.Scores[Forging] > s.m.cfg.TaskCap || i.Lost == 0 {
			t.Errorf("old %v: suspended %v, %+v", old, suspended, i)
		}
	}
}
