package allocate

import (
	"math"
	"strings"
	"testing"
)

func TestReadPages(t *testing.T) {
	ids, pages, err := ReadPages(strings.NewReader("id,model,parameters,weight,min,max\na, poisson, 2.5\nb,pareto,a=1.5;b=.2,3,1,4\nc,quasi,.25:1 .5:.5 k0=.1,,,\nd,empirical,1 2 3,0,,0\n"), "x.csv", 1)
	if err != nil || len(pages) != 4 || ids[1] != "b" || pages[1].Min != 1 || pages[1].Max != 4 || pages[3].Max != Never || pages[2].Model.Kind() != QuasiKind {
		t.Fatalf("%v %+v %v", ids, pages, err)
	}
	for text, want := range map[string]string{
		"a,poisson,x":                  "x.csv:1: parameter",
		"a,poisson,1\nb,what,1":        "x.csv:2: unknown model",
		"a,pareto,.9 1":                "no stationary",
		"a,poisson,1,1,3,2":            "x.csv:1: min 3 is more than max 2",
		"a,poisson,1,NaN":              "weight",
		"a,poisson":                    "x.csv:1: 2 fields",
		"":                             "x.csv has no pages",
		"# c\nid,model,weight":         "x.csv has no pages",
		"a,poisson,1,0\nb,poisson,1,0": "x.csv gives every page the weight 0",
		"a,poisson,\x00\x01\x02":       "x.csv:1: this is no text",
		"\xff\xfe,poisson,1":           "x.csv:1: this is no text",
		"a,\"poisson,1\nb,c\n\"":       "x.csv",
	} {
		if _, _, err := ReadPages(strings.NewReader(text), "x.csv", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The same page, written in several ways.
func TestSpellings(t *testing.T) {
	for _, same := range [][]string{
		{"a,weibull,1.5 .7", "a,Weibull,a=.7 l=1.5", "a,weibull,\"lambda=1.5,shape=.7\"", "\ufeffid,model,parameters\r\na,weibull,1.5|.7\r\n", "page,model,p\na,weibull,1.5;.7"},
		{"a,quasi,.2:.5 .6:1", "a,quasi-deterministic,.6 .2:.5", "a,Quasi_Deterministic,.2:.5 .6:.4 .6:1"},
		{"a,poisson,3", "a,exponential,rate=3", "\ufeffa,exp,l=3"},
	} {
		want := math.NaN()
		for _, text := range same {
			_, pages, err := ReadPages(strings.NewReader(text), "x", 1)
			if err != nil || len(pages) != 1 {
				t.Fatalf("%q: %v", text, err)
			}
			got := pages[0].Model.Staleness(1, 1)
			if math.IsNaN(want) {
				want = got
			}
			if math.Abs(got-want) > 1e-15 {
				t.Errorf("%q: staleness %g, as %q %g", text, got, same[0], want)
			}
		}
	}
	for text, want := range map[string]string{"a,pareto,a=2 a=3": "twice", "a,pareto,c=2 b=1": "no parameter", "a,quasi,.5:2": "0..1", "a,quasi,7:1": "instant"} {
		if _, _, err := ReadPages(strings.NewReader(text), "x", 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReadTasksAndClicks(t *testing.T) {
	_, ideal, release, err := ReadTasks(strings.NewReader("a,.5,quasi\nb,.25,stochastic\nc,1\n"), "t.csv", 1)
	if err != nil || len(ideal) != 3 || !release[0] || release[1] || ideal[1] != .25 {
		t.Fatalf("%v %v %v", ideal, release, err)
	}
	if _, _, _, err = ReadTasks(strings.NewReader("a,.5\nb,-1\n"), "t.csv", 1); err == nil || !strings.Contains(err.Error(), "t.csv:2") {
		t.Error(err)
	}
	if _, _, _, err = ReadTasks(strings.NewReader("# none\n"), "t.csv", 1); err == nil || !strings.Contains(err.Error(), "no tasks") {
		t.Error(err)
	}
	if _, _, _, err = ReadTasks(strings.NewReader("a,.5\n\n# far\nb,3\n"), "t.csv", 2); err == nil || !strings.Contains(err.Error(), "t.csv:4") {
		t.Error(err)
	}
	bars, err := ReadBars(strings.NewReader("id,crawler,from,to\na,any,0,.5\n"), "b.csv", 1, func(id string) []int { return map[string][]int{"a": {0, 2}}[id] })
	if err != nil || len(bars) != 2 || bars[1].Task != 2 || bars[1].Crawler != -1 {
		t.Errorf("a restriction on an id that two tasks have: %v %v", bars, err)
	}
	c, err := ReadClicks(strings.NewReader("page,position,frequency\n1,1,.5\n1,2,.2\n2,1,.1\n"), "c.csv")
	if err != nil {
		t.Fatal(err)
	}
	w, err := ReadPositions(strings.NewReader("p,1,2,.5,.4\np,2,1,1\nq,1,1,1\n"), "b.csv", c)
	if err != nil || math.Abs(w["p"]-(.4*.2*.5+.1)) > 1e-12 || w["q"] != .5 {
		t.Fatalf("%v %v", w, err)
	}
}

func FuzzReadPages(f *testing.F) {
	f.Add("a,poisson,1\nb,quasi,.1:.2")
	f.Fuzz(func(t *testing.T, s string) {
		_, pages, err := ReadPages(strings.NewReader(s), "f", 1)
		if err != nil {
			return
		}
		if _, err := Solve(Problem{Pages: pages, Span: 1, R: 100, Cores: 1}); err != nil && !strings.Contains(err.Error(), "allocate: ") {
			t.Fatal(err)
		}
	})
}

func FuzzReadTasks(f *testing.F) {
	f.Add("a,.5,quasi\nb,1", 1.)
	f.Add("id,ideal,kind\n\xef\xbb\xbf,NaN", math.Inf(1))
	f.Fuzz(func(t *testing.T, s string, span float64) {
		ids, ideal, release, err := ReadTasks(strings.NewReader(s), "f", span)
		if err != nil {
			return
		}
		if len(ids) != len(ideal) || len(ids) != len(release) {
			t.Fatalf("%d ids, %d times, %d marks", len(ids), len(ideal), len(release))
		}
		for _, v := range ideal {
			if !(v >= 0 && v <= span) {
				t.Fatalf("ideal time %g in 0..%g", v, span)
			}
		}
	})
}
