package allocsim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAllocate(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	c := Allocate{N: 3000, R: 9000, Mix: "50/30/10/10", Mean: 1.5, Shape: 1.5, Span: 1, Cores: 1, Twin: true, JSON: true, Plot: dir, Seed: 1}
	if err := c.Run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if math.Abs(rows[0].Objective-rows[1].Objective) > 1e-9*rows[0].Objective {
		t.Errorf("optimal %.15g, heap greedy %.15g", rows[0].Objective, rows[1].Objective)
	}
	if rows[0].Objective != rows[2].Objective {
		t.Errorf("two workers: %.17g, one: %.17g", rows[2].Objective, rows[0].Objective)
	}
	// The claims of figures 7 to 9: optimal is lowest and convex in R, uniform beats proportional, quasi-deterministic staleness reaches 0.
	by := map[string]map[string][]float64{}
	for _, r := range rows {
		if by[r.Figure] == nil {
			by[r.Figure] = map[string][]float64{}
		}
		by[r.Figure][r.Scheme] = append(by[r.Figure][r.Scheme], r.PerPage)
	}
	for _, f := range []string{"7a", "8a", "8b", "8c", "8d"} {
		o := by[f]["optimal"]
		for s, v := range by[f] {
			for k := range v {
				if v[k] < o[k]-1e-12 {
					t.Errorf("figure %s: %s is below optimal", f, s)
				}
			}
		}
		for k := 2; k < len(o); k++ {
			if o[k-2]-o[k-1] < o[k-1]-o[k]-1e-9 {
				t.Errorf("figure %s: optimal is not convex at %d: %v", f, k, o)
			}
		}
		for k := range o {
			if f[:1] == "8" && f != "8d" && by[f]["uniform"][k] > by[f]["proportional"][k] {
				t.Errorf("figure %s: proportional beats uniform", f)
			}
		}
	}
	if o := by["8d"]["optimal"]; o[len(o)-1] > 1e-9 {
		t.Errorf("quasi-deterministic staleness ends at %g", o[len(o)-1])
	}
	o := by["9a"]["optimal"]
	for k := 1; k < len(o); k++ {
		if o[k] > o[k-1] {
			t.Errorf("figure 9, mean held: staleness rises as the shape falls")
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	c := Allocate{Pages: file("p.csv", "id,model,parameters,weight,min,max\na,poisson,2,1,,\nb,poisson,2,3,,\n"), R: 3, Span: 1, Cores: 1, JSON: true, Allocation: filepath.Join(dir, "x.csv")}
	var out bytes.Buffer
	if err := c.Run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if x, _ := os.ReadFile(c.Allocation); string(x) != "id,crawls\na,1\nb,2\n" {
		t.Errorf("allocation %q", x)
	}
	c.Pages = file("empty.csv", "")
	if err := c.Run(context.Background(), &out, io.Discard); err == nil || !strings.Contains(err.Error(), "empty.csv has no pages") {
		t.Errorf("empty pages: %v", err)
	}
	c.Pages = file("bad.csv", "a,poisson,2\nb,pareto,.5 1\n")
	if err := c.Run(context.Background(), &out, io.Discard); err == nil || !strings.Contains(err.Error(), "bad.csv:2") {
		t.Errorf("bad page: %v", err)
	}
	tt := Timetable{Tasks: file("t.csv", "a,.5,quasi\nb,0,stochastic\n"), Crawlers: 1, Span: 1, JSON: true, Schedule: filepath.Join(dir, "s.csv")}
	out.Reset()
	if err := tt.Run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if s, _ := os.ReadFile(tt.Schedule); string(s) != "id,crawler,slot,time\na,0,1,0.5\nb,0,0,0\n" {
		t.Errorf("schedule %q", s)
	}
	tt.Tasks = file("badt.csv", "a,.5,quasi\nb,x\n")
	if err := tt.Run(context.Background(), &out, io.Discard); err == nil || !strings.Contains(err.Error(), "badt.csv:2") {
		t.Errorf("bad task: %v", err)
	}
}

func TestTimetable(t *testing.T) {
	var out bytes.Buffer
	c := Timetable{Count: 100_000, Crawlers: 10, Quasi: .2, Ideal: "phases", Span: 1, Seed: 1, JSON: true, Plot: t.TempDir()}
	if err := c.Run(context.Background(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var rows []TimetableRow
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || rows[0].Early != 0 || rows[0].Within20 < .99 {
		t.Fatalf("%v %+v", err, rows)
	}
}

func TestReadChanges(t *testing.T) {
	text := "author_epoch\tcommit_epoch\tstatus\tpath\tblob\tsize\tsubject\n0\t0\tA\tp\tx\t1\tStart tracking p\n86400\t0\tM\tp\ty\t1\tRecord new changes\n172800\t0\tM\tp\tz\t1\tRecord new changes\n432000\t0\tM\tp\tz\t1\tRecord new changes\n"
	g, err := ReadChanges(strings.NewReader(text), "c.tsv", 2)
	if err != nil || len(g["p"]) != 2 || g["p"][0] != 1 || g["p"][1] != 3 {
		t.Fatalf("%v %v", g, err)
	}
	if _, err := ReadChanges(strings.NewReader("x\ty\n"), "c.tsv", 2); err == nil || !strings.Contains(err.Error(), "c.tsv:1") {
		t.Errorf("%v", err)
	}
}
