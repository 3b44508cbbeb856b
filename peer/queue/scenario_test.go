package queue

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/scenario"
)

// A scenario is a text file. A line that begins in the first column is a command with key=value arguments. The
// indented lines under it are the queue's answers. Times count from the start.
func TestScenarios(t *testing.T) { scenario.Play(t, 1, play) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type player struct {
	t   *testing.T
	q   *Queue[string]
	now time.Time
	out bytes.Buffer
}

func play(t *testing.T, script []byte) []byte {
	p := &player{t: t, q: New[string](Config{Threads: 1, Queue: 1, Service: time.Second}), now: epoch}
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

func (p *player) command(words []string) {
	arg := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		arg[k] = v
	}
	num := func(k string) int { n, _ := strconv.Atoi(arg[k]); return n }
	dur := func(k string) time.Duration {
		if arg[k] == "" {
			return 0
		}
		d, err := time.ParseDuration(arg[k])
		if err != nil {
			p.t.Fatalf("%v: %v", words, err)
		}
		return d
	}
	at := func(k string) time.Time {
		if arg[k] == "" {
			return time.Time{}
		}
		return epoch.Add(dur(k))
	}
	switch words[0] {
	case "queue":
		p.q = New[string](Config{Threads: num("threads"), Queue: num("waiting"), Service: dur("service"), MaxRun: dur("maxrun")})
	case "at":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = epoch.Add(d)
		p.tick()
	case "quote":
		start, ok := p.q.Quote(p.now, at("latest"))
		fmt.Fprintf(&p.out, "  start %v ok %v\n", start.Sub(epoch), ok)
	case "take":
		err := p.q.Take(p.now, Item[string]{Key: uint64(num("key")), Pages: num("pages"), Gap: dur("gap"), Latest: at("latest"), Value: "task " + arg["key"]})
		if err != nil {
			fmt.Fprintf(&p.out, "  %v\n", err)
		}
		p.tick()
	case "progress":
		p.q.Progress(p.now, uint64(num("key")), num("left"))
	case "done":
		if _, ok := p.q.Done(p.now, uint64(num("key")), num("pages")); !ok {
			fmt.Fprintln(&p.out, "  not running")
		}
		p.tick()
	case "mode":
		m := map[string]Mode{"open": Open, "paused": Paused, "finish": Finish, "drain": Drain}[words[1]]
		p.q.SetMode(m, at("until"))
		p.tick()
	case "limits":
		if err := p.q.SetLimits(num("threads"), num("waiting")); err != nil {
			fmt.Fprintf(&p.out, "  %v\n", err)
		}
		p.tick()
	case "handover":
		for _, it := range p.q.Handover(nil) {
			fmt.Fprintf(&p.out, "  %s\n", it.Value)
		}
	case "state":
		m, until := p.q.Mode()
		fmt.Fprintf(&p.out, "  %v, %d running, %d waiting, service %v", m, p.q.Running(), p.q.Waiting(), p.q.Service().Round(time.Millisecond))
		if !until.IsZero() {
			fmt.Fprintf(&p.out, ", until %v", until.Sub(epoch))
		}
		if d := p.q.Deadline(); !d.IsZero() {
			fmt.Fprintf(&p.out, ", deadline %v", d.Sub(epoch))
		}
		fmt.Fprintln(&p.out)
	default:
		p.t.Fatalf("unknown command %q", words[0])
	}
}

func (p *player) tick() {
	for _, a := range p.q.Tick(p.now, nil) {
		fmt.Fprintf(&p.out, "  %v %s\n", a.Kind, a.Item.Value)
	}
}
