package main

import (
	"slices"
	"strings"
	"testing"

	"shoal/internal/lab/jsonwords"
)

func TestRun(t *testing.T) {
	for _, x := range []struct {
		args string
		code int
		want string // in output or error
	}{
		{"", 0, "shoal-sim recrawl --steps"},
		{"--help", 0, "allocate"},
		{"version", 0, "shoal-sim "},
		{"recrawl --help", 0, "--steps"},
		{"nonsense", 2, "Try: shoal-sim --help"},
		{"recrawl --nonsense", 2, "unknown flag --nonsense"},
		{"recrawl --strategy nonsense", 1, "nonsense"},
		{"recrawl --case rec --mode shoal --channels 50 --crawlers 10 --steps 60 --strategy fixed", 0, "fixed"},
		{"cycle --no-such", 2, "Try: shoal-sim cycle --help"},
		{"allocate --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"timetable --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"cycle --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"ordering --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"ordering-pond --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"overlay --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"trust --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"live --foretell --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"recrawl --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"sweep --plot /proc/none", 1, "--plot: cannot make the folder for figures"},
		{"scale --error nan", 1, "an error of 0 to 1"},
		{"scale --whole 1", 1, "--whole 1"},
		{"scale --settle -1m", 1, "--settle -1m"},
		{"overlay --drift nan", 1, "--drift NaN: want"},
		{"timetable --idle 1e300", 1, "--idle 1e+300: want"},
		{"timetable --quasi 2", 1, "--quasi 2: want"},
		{"cycle --stale 2", 1, "--stale 2: want"},
		{"ordering --synthetic 100 --seeds 2", 1, "--seeds above 0"},
		{"allocate --pages /no/such/file", 1, "/no/such/file"},
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(x.args), streams{&out, &errs}); code != x.code || !strings.Contains(out.String()+errs.String(), x.want) {
			t.Errorf("shoal-sim %s: %d, want %d with %q in\n%s%s", x.args, code, x.code, x.want, out.String(), errs.String())
		}
	}
}

// TestOneForm: results come in one form, and who asks for two is told.
func TestOneForm(t *testing.T) {
	for _, command := range []string{"recrawl", "sweep", "allocate", "timetable", "cycle", "ordering", "ordering-pond", "overlay", "trust"} {
		var out, errs strings.Builder
		if code := run(t.Context(), []string{command, "--json", "--csv"}, streams{&out, &errs}); code != 2 || !strings.Contains(errs.String(), "--json and --csv can't be used together") {
			t.Errorf("%s: %d\n%.200s%s", command, code, out.String(), errs.String())
		}
	}
}

// TestJSON: the experiments' results are spelt as all of Shoal's JSON, but for the minutes of the paper's model.
func TestJSON(t *testing.T) {
	for _, args := range []string{
		"recrawl --case rec --mode shoal --channels 50 --crawlers 10 --steps 60 --strategy fixed", "sweep --channels 50 --crawlers 10 --steps 60 --strategy fixed",
		"timetable --crawlers 2", "overlay --peers 30 --tasks 5", "trust --days 1 --peers 50 --attack lazy",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), append(strings.Fields(args), "--json"), streams{&out, &errs}); code != 0 {
			t.Errorf("shoal-sim %s --json: status %d: %s", args, code, errs.String())
			continue
		}
		wrong := slices.DeleteFunc(jsonwords.Complaints(out.String()), func(s string) bool { return strings.HasSuffix(s, "_min is not in seconds") })
		if len(wrong) > 0 {
			t.Errorf("shoal-sim %s --json: %s\n%.1000s", args, strings.Join(wrong, "\n"), out.String())
		}
	}
}
