package pages

import (
	"cmp"
	"strings"
	"unicode"
)

// NameKey is the same for nicknames, and for teams, that readers take for one: it leaves out case, and how many spaces are between words.
func NameKey(name string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, strings.Join(strings.Fields(name), " "))
}

// teams adds up what teams have. Who names a team in other letters of the same name means the same team, which is shown as those write it that brought most.
type teams map[string]*team

type team struct {
	Earned
	spelt map[string]Earned
}

func (t teams) add(name string, e Earned) {
	key := NameKey(name)
	if t[key] == nil {
		t[key] = &team{spelt: map[string]Earned{}}
	}
	t[key].Earned.add(e)
	s := t[key].spelt[name]
	s.add(e)
	t[key].spelt[name] = s
}

// name is how a team is written.
func (t *team) name() (name string) {
	var most Earned
	for spelling, e := range t.spelt {
		if c := cmp.Or(cmp.Compare(e.Pages, most.Pages), cmp.Compare(e.Bytes, most.Bytes), cmp.Compare(name, spelling)); name == "" || c > 0 {
			name, most = spelling, e
		}
	}
	return name
}
