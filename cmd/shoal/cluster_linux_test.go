package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shoal/internal/lab/waiting"
	"shoal/internal/pgserver"
	"shoal/internal/ports"
	"shoal/manager/api"
)

// TestUpCluster runs two managers by `up`, kills one as its greeting proposes, and sees the other one go on with all.
func TestUpCluster(t *testing.T) {
	t.Parallel()
	if _, err := pgserver.Find(); err != nil && os.Getenv("SHOAL_TEST_STRICT") != "1" {
		t.Skip(err)
	}
	home := t.TempDir()
	port, err := ports.Row(2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var out, said buffer
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"up", "--cluster", "2", "--data", home, "--page", fmt.Sprintf("127.0.0.1:%d", port), "--hosts", "20", "--pages", "60", "--peers", "2", "--json"}, streams{&out, &said})
	}()
	defer func() {
		end()
		if code := <-status; code != 0 {
			t.Errorf("status %d: %s", code, said.String())
		}
		var sum summary
		if err := json.Unmarshal([]byte(out.String()), &sum); err != nil || sum.Channels != 20 || sum.Updates == 0 || sum.MaxInFlight != 1 || sum.TrueFreshness == nil {
			t.Errorf("%s: %v", out.String(), err)
		}
		s, err := pgserver.Start(context.Background(), filepath.Join(home, "up-cluster", "postgres")) // where its data lies
		if err == nil {
			err = s.Stop()
			at := s.Data()
			if os.Getuid() == 0 {
				at = filepath.Dir(at)
			}
			os.RemoveAll(at)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	until := func(what string, holds func() bool) {
		t.Helper()
		waiting.Until(t, what, holds, said.String)
	}
	greeted := regexp.MustCompile(`manager 1  http\S+  process (\d+)`)
	until("it greets", func() bool { return strings.Contains(said.String(), "end with") })
	second := filepath.Join(home, "up-cluster", "manager-2")
	token, err := os.ReadFile(filepath.Join(second, "operator.token"))
	if err != nil {
		t.Fatal(err)
	}
	client := &api.Client{Base: fmt.Sprintf("http://127.0.0.1:%d", port+1), Token: strings.TrimSpace(string(token))}
	parts := func() (parts, managers int) {
		var all api.Managers
		if client.Do(t.Context(), http.MethodGet, "/managers", nil, nil, &all) != nil || len(all.Managers) == 0 || !all.Managers[0].Here {
			return 0, 0
		}
		return all.Managers[0].Partitions, len(all.Managers)
	}
	until("two managers have half of the partitions each", func() bool { n, of := parts(); return n == 128 && of == 2 })
	pid, err := strconv.Atoi(greeted.FindStringSubmatch(said.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home, "up-cluster", "manager-1")); err != nil {
		t.Fatal(err)
	}
	until("the other one has all, unless the killed one is back before it is taken for dead", func() bool {
		n, _ := parts()
		return n == 256 || strings.Contains(said.String(), "Manager 1 runs again")
	})
	until("every channel is crawled", func() bool {
		var rows api.Rows
		if client.Do(t.Context(), http.MethodGet, "/channels", nil, nil, &rows) != nil || len(rows.Channels) != 20 {
			return false
		}
		for _, r := range rows.Channels {
			if r.Visits == 0 {
				return false
			}
		}
		return true
	})
	until("the killed one is back, though its folder was deleted", func() bool {
		_, of := parts()
		return of == 2 && strings.Contains(said.String(), "Manager 1 runs again")
	})
}

// TestClusterWishes has --cluster refuse what it cannot do, with what to do instead.
func TestClusterWishes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--cluster 1":                       "want 2 to 16 managers",
		"--cluster 17":                      "want 2 to 16 managers",
		"--cluster 3 --db postgres://x":     "--db and --bucket together",
		"--cluster 3 --page 127.0.0.1:0":    "needs an address with a port",
		"--cluster 3 --page=":               "needs an address with a port",
		"--cluster 3 --bucket s3://k:s@h/b": "--db and --bucket together",
	} {
		var o, e strings.Builder
		if code := run(t.Context(), append([]string{"up", "--data", t.TempDir()}, strings.Fields(args)...), streams{&o, &e}); code != 1 || !strings.Contains(e.String(), want) {
			t.Errorf("%s: status %d: %s", args, code, e.String())
		}
	}
}

// TestClusterPages has other programs listen where the managers' pages would be: the first page is as asked or not at all, and the others go round them.
func TestClusterPages(t *testing.T) {
	t.Parallel()
	host := "127.77.3.9" // one of its own
	taken, err := net.Listen("tcp", host+":7781")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := &upCmd{Cluster: 3, Page: host + ":7780"}
	if got, err := c.clusterPages(); err != nil || !slices.Equal(got, []string{host + ":7780", host + ":7782", host + ":7783"}) {
		t.Errorf("pages at %q: %v", got, err)
	}
	c.Page = host + ":7781"
	if got, err := c.clusterPages(); err == nil || !strings.Contains(err.Error(), "in use; choose another address with --page") {
		t.Errorf("pages at %q: %v", got, err)
	}
}
