package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/pond"
)

// usage is a process's use of resources, as the kernel sees it.
type usage struct {
	resident, own, most float64 // MB: all, without the program's file, the most ever
	cpu                 time.Duration
}

func usageOf(t *testing.T, pid int) (u usage) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			u.resident = kb * 1024 / 1e6
		case "RssAnon:":
			u.own = kb * 1024 / 1e6
		case "VmHWM:":
			u.most = kb * 1024 / 1e6
		}
	}
	if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	u.cpu = time.Duration(user+system) * 10 * time.Millisecond
	return u
}

// told is a peer's own status.
type told struct {
	Messages float64 `json:"messages_per_minute"`
	Packets  float64 `json:"packets_per_minute"`
	Members  int
	Reach    struct{ Direct int }
	Running  []struct {
		Host        string
		Pages, Left int
	}
	Counters struct {
		Updated int `json:"tasks_updated"`
		Pages   int `json:"pages_fetched"`
	}
}

func ask(t *testing.T, dir string) (s told) {
	t.Helper()
	p := start(t, "shoal-peer", "status", "--json", "--data", dir)
	<-p.done
	if err := json.Unmarshal(p.out.Bytes(), &s); err != nil {
		t.Logf("status: %v %s", err, p.said())
	}
	return s
}

// TestFootprint (make footprint) measures a peer's use of its computer. SHOAL_FOOTPRINT sets the minutes of each
// part.
func TestFootprint(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv("SHOAL_FOOTPRINT"))
	if err != nil {
		t.Skip("takes half an hour: make footprint")
	}
	load := func() string {
		b, _ := os.ReadFile("/proc/loadavg")
		return strings.Join(strings.Fields(string(b))[:3], " ")
	}
	t.Run("idle", func(t *testing.T) {
		// Nine peers, so that each holds connections to the eight others where needed, and to the manager.
		m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--contact", "http://contact.test/")
		dirs, peers := volunteers(t, 9, m.word("shoal-peer join "))
		time.Sleep(time.Duration(minutes) * time.Minute)
		var before []usage
		for _, p := range peers {
			before = append(before, usageOf(t, p.cmd.Process.Pid))
		}
		began, messages := time.Now(), 0.0
		time.Sleep(2 * time.Minute)
		for i, p := range peers {
			u := usageOf(t, p.cmd.Process.Pid)
			core := 100 * float64(u.cpu-before[i].cpu) / float64(time.Since(began))
			s := ask(t, dirs[i])
			t.Logf("%.1f MB resident, %.1f its own, %.1f at most; %.2f%% of a core; %d connections; %.1f messages and %.0f packets a minute; load %s",
				u.resident, u.own, u.most, core, s.Reach.Direct, s.Messages, s.Packets, load())
			if u.resident > 60 || core > .3 || s.Messages > 3 {
				t.Error("over 60 MB, 0.3% of a core or 3 messages a minute")
			}
			messages += s.Messages / float64(len(peers))
		}
		// Chance decides which peers gossip more for five minutes.
		t.Logf("%.2f messages a minute on average", messages)
	})
	t.Run("five channels", func(t *testing.T) {
		// 1,000,000 pages on the largest, a thousand links on each page, so that a peer knows all pages after it
		// fetched a fraction of them.
		w, err := pond.NewWorld(pond.Config{Seed: 1, Sizes: []int{1_000_000, 300_000, 200_000, 70_000, 30_000}, Links: 1000, Bytes: 4000, Plain: true, Static: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := pond.NewServer(w, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- s.Run(ctx) }()
		t.Cleanup(func() { end(); <-served })
		addr := s.Addr().String()
		data := t.TempDir()
		m := start(t, "shoal", "manager", "--data", data, "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", addr, "--lease", "5m")
		m.word("shoal-peer join ")
		for _, h := range w.Hosts() { // else a first task is a small one
			edit := start(t, "shoal", "channel", "edit", "http://"+h.Name, "--pages", fmt.Sprint(h.Pages), "--data", data)
			if <-edit.done; edit.cmd.ProcessState.ExitCode() != 0 {
				t.Fatal(edit.said())
			}
		}
		dirs, peers := volunteers(t, 1, m.word("shoal-peer join "), "--pond", addr)
		for over := time.Now().Add(time.Duration(minutes) * time.Minute); time.Now().Before(over); {
			time.Sleep(time.Minute)
			u, s := usageOf(t, peers[0].cmd.Process.Pid), ask(t, dirs[0])
			known := 0
			for _, r := range s.Running {
				known += r.Pages + r.Left
			}
			t.Logf("%d channels, %d pages fetched, %d URLs known: %.1f MB resident, %.1f its own, %.1f at most; %.1f s of processor; load %s",
				len(s.Running), s.Counters.Pages, known, u.resident, u.own, u.most, u.cpu.Seconds(), load())
			if u.most > 120 {
				t.Error("over 120 MB")
			}
		}
	})
}
