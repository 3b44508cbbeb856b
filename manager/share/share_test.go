package share

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shoal/channel"
)

var update = flag.Bool("update", false, "write the scenarios' answers anew")

// world is a database as several managers see it, each as it was when it looked last.
type world struct {
	t    channel.Tenure
	seen map[channel.Epoch]channel.Tenure
	last channel.Epoch
	gave map[channel.Epoch]int
	took map[channel.Epoch]int
}

func newWorld() *world {
	return &world{seen: map[channel.Epoch]channel.Tenure{}, gave: map[channel.Epoch]int{}, took: map[channel.Epoch]int{}}
}

func (w *world) join() channel.Epoch {
	w.last++
	w.t.Tenants = append(w.t.Tenants, channel.Tenancy{ID: w.last})
	return w.last
}

// die ends a tenancy: its partitions are free.
func (w *world) die(id channel.Epoch) {
	w.t.Tenants = slices.DeleteFunc(w.t.Tenants, func(t channel.Tenancy) bool { return t.ID == id })
	for p, owner := range w.t.Owner {
		if owner == id {
			w.t.Owner[p] = 0
		}
	}
	delete(w.seen, id)
}

func (w *world) leave(id channel.Epoch) {
	for i := range w.t.Tenants {
		if w.t.Tenants[i].ID == id {
			w.t.Tenants[i].Leaving = true
		}
	}
}

func (w *world) look(id channel.Epoch) {
	t := w.t
	t.Tenants = slices.Clone(w.t.Tenants)
	w.seen[id] = t
}

// act does what a manager decides by what it saw last. The database lets nobody take what another has, nor give what it has not.
func (w *world) act(id channel.Epoch) {
	t := w.seen[id]
	m := Next(&t, id)
	for _, p := range m.Give {
		if w.t.Owner[p] == id {
			w.t.Owner[p] = 0
			w.gave[id]++
		}
	}
	for _, p := range m.Take {
		if w.t.Owner[p] == 0 {
			w.t.Owner[p] = id
			w.took[id]++
		}
	}
}

// settle has all managers look and act until nothing changes, and returns how many rounds that took.
func (w *world) settle(t *testing.T) (rounds int) {
	for rounds = 0; ; rounds++ {
		before := w.t.Owner
		for _, m := range w.t.Tenants {
			w.look(m.ID)
		}
		for _, m := range w.t.Tenants {
			w.act(m.ID)
		}
		if before == w.t.Owner {
			return rounds
		}
		if rounds > 5 {
			t.Fatalf("not settled after %d rounds", rounds)
		}
	}
}

func (w *world) has() map[channel.Epoch]int {
	n := map[channel.Epoch]int{}
	for _, owner := range w.t.Owner {
		n[owner]++
	}
	return n
}

// even wants all partitions shared out evenly among those who stay.
func (w *world) even(t *testing.T) {
	t.Helper()
	has, ids := w.has(), staying(&w.t)
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		if n := has[id]; n < channel.Parts/len(ids) || n > (channel.Parts+len(ids)-1)/len(ids) {
			t.Errorf("manager %d of %d has %d partitions", id, len(ids), n)
		}
	}
	if has[0] > 0 {
		t.Errorf("%d partitions have no owner", has[0])
	}
}

// TestScenarios plays the files of testdata: a line is an event, after which all is settled; the answer is how many each one has, gave and took.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w, out := newWorld(), ""
		for line := range strings.Lines(string(b)) {
			event, _, _ := strings.Cut(strings.TrimSpace(line), " ->")
			if event == "" || event[0] == '#' {
				out += line
				continue
			}
			var id channel.Epoch
			word, rest, _ := strings.Cut(event, " ")
			_, _ = fmt.Sscan(rest, &id)
			clear(w.gave)
			clear(w.took)
			switch word {
			case "join":
				w.join()
			case "die":
				w.die(id)
			case "leave":
				w.leave(id)
			default:
				t.Fatalf("%s: %q is no event", file, event)
			}
			rounds := w.settle(t)
			w.even(t)
			out += fmt.Sprintf("%s -> rounds %d:", event, rounds)
			for _, m := range w.t.Tenants {
				out += fmt.Sprintf(" [%d has %d gave %d took %d]", m.ID, w.has()[m.ID], w.gave[m.ID], w.took[m.ID])
			}
			out += "\n"
		}
		if *update {
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if out != string(b) {
			t.Errorf("%s:\n%s\nwant\n%s", file, out, b)
		}
	}
}

// TestWorlds has managers come, go and die at random, while each acts on what it saw at some time before. No partition ever has two owners (the world
// has no room for that), what is free is taken, and when all is quiet all is even. A manager that neither joined nor left gives no more than its share
// shrinks by.
func TestWorlds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		for range 60 {
			if n := len(w.t.Tenants); n > 0 {
				id := w.t.Tenants[rng.IntN(n)].ID
				switch rng.IntN(12) {
				case 0:
					w.die(id)
				case 1:
					w.leave(id)
				case 2, 3, 4, 5, 6:
					w.look(id)
				default:
					if _, saw := w.seen[id]; saw {
						w.act(id)
					}
				}
			}
			if rng.IntN(8) == 0 && len(w.t.Tenants) < 12 {
				w.join()
			}
		}
		w.settle(t)
		w.even(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		clear(w.gave)
		before := w.has()
		w.join()
		w.settle(t)
		after := w.has()
		for id, gave := range w.gave {
			if gave != before[id]-after[id] {
				t.Fatalf("seed %d: manager %d gave %d and came from %d to %d", seed, id, gave, before[id], after[id])
			}
		}
	}
}

// TestAimIsOneAnswer asks with the managers in another order.
func TestAimIsOneAnswer(t *testing.T) {
	w := newWorld()
	for range 5 {
		w.join()
	}
	w.settle(t)
	w.join()
	a := Aim(&w.t)
	slices.Reverse(w.t.Tenants)
	if b := Aim(&w.t); a != b {
		t.Error("the order of the managers decides")
	}
}
