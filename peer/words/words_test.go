package words

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var places = regexp.MustCompile(`\{\d\}`)

// TestLanguagesAgree checks that each language has the same keys and the same places for values, and that no sentence is empty.
func TestLanguagesAgree(t *testing.T) {
	en := catalogues[English]
	for _, l := range languages[1:] {
		for key, text := range en {
			other, ok := catalogues[l][key]
			if !ok || strings.TrimSpace(other) == "" {
				t.Errorf("%s has no %s", l, key)
				continue
			}
			a, b := places.FindAllString(text, -1), places.FindAllString(other, -1)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(slices.Compact(a), slices.Compact(b)) {
				t.Errorf("%s: %s has the values %v, English %v", key, l, b, a)
			}
		}
		for key := range catalogues[l] {
			if _, ok := en[key]; !ok {
				t.Errorf("%s has %s, English has not", l, key)
			}
		}
	}
}

func TestPick(t *testing.T) {
	for accept, want := range map[string]string{"de-AT,de;q=0.9,en;q=0.5": "de", "fr,en;q=0.8,de;q=0.2": "en", "": "en", "fr": "en", "DE": "de"} {
		if got := Pick(accept); got != want {
			t.Errorf("%q: %s", accept, got)
		}
	}
}

func TestTexts(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.Local)
	for _, c := range []struct {
		text   Text
		en, de string
	}{
		{Count(1, "count.site"), "1 site", "1 Website"},
		{Count(3, "count.site"), "3 sites", "3 Websites"},
		{Until(now, now.Add(12*time.Second)), "in 12 s", "in 12 s"},
		{Ago(now, now.Add(-26*time.Hour)), "1 day 2 h ago", "vor 1 Tag 2 h"},
		{Until(now, now), "now", "jetzt"},
		{Moment(now.Add(time.Hour), now), "09:00", "09:00"},
		{Moment(now.Add(-40*time.Hour), now), "28 February 16:00", "28. Februar 16:00"},
		{Moment(now.AddDate(-1, 0, 0), now), "2 March 2025 08:00", "2. März 2025 08:00"},
		{T("health.clock.off", Span(48*time.Hour)), "the clock is 2 days away from the company's server; set this computer's clock", "die Uhr geht falsch, mit 2 Tagen Unterschied zum Server der Firma; stellen Sie die Uhr dieses Computers"},
		{T("health.disk.ok", Num(53642)), "53,642 MiB are free", "53.642 MiB sind frei"},
		{T("raw", Num(-1234567)), "-1,234,567", "-1.234.567"},
		{T("why.busy", 97), "other programs use 97% of the processors", "andere Programme nutzen 97\u00a0% der Prozessoren"},
		{T("no such key"), "no such key", "no such key"},
	} {
		if got := c.text.In("en"); got != c.en {
			t.Errorf("%q, want %q", got, c.en)
		}
		if got := c.text.In("de"); got != c.de {
			t.Errorf("%q, want %q", got, c.de)
		}
	}
}
