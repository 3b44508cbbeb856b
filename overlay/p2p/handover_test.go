package p2p

import (
	"errors"
	"testing"

	"shoal/channel"
	"shoal/internal/member"
)

// A task shows from whom it came over all that handed it on. A peer's word does not count for a task that it did not have, or for another taker.
func TestGiver(t *testing.T) {
	network := member.NetworkID{1}
	a, b, c := newStamp(t, 1, network), newStamp(t, 2, network), newStamp(t, 3, network)
	give := func(s channel.Signed, from, to *stamp) channel.Signed {
		t.Helper()
		out, err := HandOver(from.key, s, to.id)
		if err != nil {
			t.Fatal(err)
		}
		read, err := channel.ParseSigned(out.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	task, other := channel.Signed{Raw: []byte("task"), Sig: []byte("s")}, channel.Signed{Raw: []byte("other"), Sig: []byte("s")}
	once := give(task, a, b)
	twice := give(once, b, c)
	with := func(s channel.Signed, hs ...channel.Handover) channel.Signed { s.Handovers = hs; return s }
	for what, k := range map[string]struct {
		s    channel.Signed
		has  *stamp
		from *stamp // nil: it does not show
	}{
		"never handed over": {task, a, a},
		"once":              {once, b, a},
		"twice":             {twice, c, a},
		"to another":        {once, c, nil},
		"back":              {give(twice, c, a), a, a},
		"of another task":   {with(other, once.Handovers...), b, nil},
		"out of order":      {with(task, twice.Handovers[1], twice.Handovers[0]), b, nil},
		"a gap":             {with(task, once.Handovers[0], give(task, c, a).Handovers[0]), a, nil},
		"unsigned":          {with(task, channel.Handover{From: string(a.id), To: string(b.id)}), b, nil},
		"signed by another": {with(task, channel.Handover{From: string(a.id), To: string(b.id), Sig: give(task, c, b).Handovers[0].Sig}), b, nil},
		"no peer":           {with(task, channel.Handover{From: "x", To: string(b.id), Sig: once.Handovers[0].Sig}), b, nil},
	} {
		from, err := Giver(k.s, string(k.has.id))
		if k.from == nil && !errors.Is(err, errHandovers) || k.from != nil && (err != nil || from != string(k.from.id)) {
			t.Errorf("%s: from %q, %v", what, from, err)
		}
	}
	long := task
	for range channel.MaxHandovers {
		long = give(give(long, a, b), b, a)
		if len(long.Handovers) == channel.MaxHandovers {
			break
		}
	}
	if s, err := HandOver(a.key, long, b.id); !errors.Is(err, errHandovers) {
		t.Errorf("handed over %d times: %v", len(s.Handovers), err)
	}
	if len(once.Handovers) != 1 || len(task.Handovers) != 0 {
		t.Error("to hand a task over changes it")
	}
}
