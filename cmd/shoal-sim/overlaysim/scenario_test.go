package overlaysim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/scenario"
	"shoal/internal/sim"
	"shoal/overlay"
)

// A scenario is a text file: a line that begins in the first column is a command with key=value arguments, the indented lines under it are what the swarm
// answered. Peers p1, p2 and so on and hosts h1, h2 and so on lie on a line, where x is in milliseconds of round trip; p0 is the manager.
func TestScenarios(t *testing.T) { scenario.Play(t, 1, play) }

// player runs a scenario.
type player struct {
	t     *testing.T
	n     *network
	hosts int
	cut   float64 // no message crosses this place; 0: none
	took  map[int]int
	full  map[int]bool
	out   bytes.Buffer
	req   uint64
}

// taker is a peer's queue: it takes what it has room for.
type taker struct {
	idle
	p   *player
	who int
}

func (q taker) Quote(now time.Time, h channel.Header) (time.Time, bool) {
	if q.p.full[q.who] {
		return now.Add(time.Hour), false
	}
	return now, true
}

func (q taker) Take(time.Time, channel.Signed, channel.Header) error {
	q.p.took[q.who]++
	return nil
}

func play(t *testing.T, script []byte) []byte {
	p := &player{t: t, took: map[int]int{}, full: map[int]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&p.out, line)
		if line != "" && line[0] != '#' {
			p.command(strings.Fields(line))
		}
	}
	return p.out.Bytes()
}

func (p *player) say(format string, a ...any) { fmt.Fprintf(&p.out, "  "+format+"\n", a...) }

func (p *player) command(words []string) {
	arg := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		arg[k] = v
	}
	whole := func(k string) int { n, _ := strconv.Atoi(strings.TrimLeft(arg[k], "ph")); return n }
	real := func(k string) float64 { x, _ := strconv.ParseFloat(arg[k], 64); return x }
	switch words[0] {
	case "swarm": // peers=1,2,3 hosts=1,2: where on the line each is
		p.swarm(arg["peers"], arg["hosts"], uint64(whole("seed")))
	case "run":
		d, err := time.ParseDuration(arg["for"])
		if err != nil {
			p.t.Fatal(err)
		}
		p.n.run(d)
	case "leave":
		p.n.leave(whole("who"), false)
	case "join":
		p.n.join(whole("who"))
	case "greet":
		p.n.greet(whole("who"))
	case "partition":
		p.cut = real("at")
	case "heal":
		p.cut = 0
	case "full":
		p.full[whole("who")] = true
	case "room":
		p.full[whole("who")] = false
	case "knows":
		var who []string
		for i := range p.n.members {
			if p.n.members[i].up && i != whole("who") {
				if r := p.n.members[whole("who")].node.Known(); has(r, p.n.members[i].id) {
					who = append(who, string(p.n.members[i].id))
				}
			}
		}
		p.say("%s", strings.Join(who, " "))
	case "offer":
		p.offer(whole("host"), whole("times"))
	default:
		p.t.Fatalf("no command %q", words[0])
	}
}

func has(recs []overlay.PeerRecord, id overlay.ID) bool {
	for i := range recs {
		if recs[i].ID == id {
			return true
		}
	}
	return false
}

func (p *player) swarm(peers, hosts string, seed uint64) {
	g := &ground{points: []sim.Point{{}}}
	at := func(list string) (n int) {
		for w := range strings.SplitSeq(list, ",") {
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			g.points = append(g.points, sim.Point{X: x / 2, Y: float64(n) / 100}) // points are one way apart
			n++
		}
		return n
	}
	count := at(peers)
	p.hosts = at(hosts)
	n, err := newNetwork(g, crowd{peers: count, seed: seed, places: placesBy("product"), queueOf: func(i int) overlay.Queue { return taker{p: p, who: i} }})
	if err != nil {
		p.t.Fatal(err)
	}
	n.deaf = func(from, to int, _ overlay.Msg) bool {
		return p.cut != 0 && (2*g.points[from].X < p.cut) != (2*g.points[to].X < p.cut)
	}
	p.n = n
}

// offer has the manager place a task for a host some times, and tells who took it.
func (p *player) offer(host, times int) {
	place := len(p.n.members) + host - 1
	for range max(times, 1) {
		p.req++
		var known []overlay.PeerRecord // whom the manager can reach measure the host
		for _, r := range p.n.records() {
			if !p.n.deaf(manager, p.n.who(r.ID), nil) {
				known = append(known, r)
			}
		}
		record := p.n.survey(place, known)
		before := map[int]int{}
		for i, k := range p.took {
			before[i] = k
		}
		e, ok := p.n.placeOne(manager, p.req, place, record)
		holders := 0
		for i, k := range p.took {
			holders += k - before[i]
		}
		switch {
		case !ok:
			p.say("h%d: no end", host)
		case errors.Is(e.Err, overlay.ErrRefused):
			p.say("h%d: refused, in %d queues", host, holders)
		case e.Err != nil:
			p.say("h%d: unsure, in %d queues", host, holders)
		default:
			p.say("h%d: %s at %.0f ms, in %d queues", host, e.Placed.Peer, p.n.ground.rtt(p.n.who(e.Placed.Peer), place), holders)
		}
	}
}
