package crawl

import (
	"testing"
	"time"
)

// TestTimesAsSitesWriteThem reads one time in the ways in which feeds and sitemaps have it.
func TestTimesAsSitesWriteThem(t *testing.T) {
	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, text := range []string{
		"2024-01-02T03:04:05Z", "2024-01-02t03:04:05z", "2024-01-02 03:04:05 +0000", "2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05 GMT", "2024-01-02 03:04:05+00:00", "2024-01-02T03:04:05.000+0000",
		"2024-01-02 04:04:05+01", "20240102T030405Z", "Tue, 2 Jan 2024 03:04:05 Z", "Tue,02 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 05:04:05 +02:00", "Tuesday, 2 January 2024 03:04:05 +0000", "Di, 02 Jan 2024 03:04:05 +0000",
		"вт, 02 Jan 2024 03:04:05 GMT", "Tue, 02 JAN 2024 03:04:05 gmt", "Mon, 01 Jan 2024 22:04:05 EST", "Mon, 01 Jan 24 20:04:05 PDT", "Tuesday, 02-Jan-24 03:04:05 GMT", "Tue, 02 Jan 2024 03:04:05 +0000 (UTC)",
		"Tue, 02 Jan 2024 05:04:05 GMT+0200", "January 2, 2024 03:04:05 UTC", " Tue, 2  Jan 2024\t03:04:05 GMT ",
	} {
		if m := momentOf(text); !m.from.Equal(at) || !m.to.Equal(at) {
			t.Errorf("%q: %v to %v", text, m.from, m.to)
		}
	}
	for text, lasts := range map[string]time.Duration{
		"Tue, 2 Jan 2024 03:04 GMT": time.Minute, "Tue, 2 Jan 2024 03:04 +0000": time.Minute, "2024-01-02T04:04+0100": time.Minute, "20240102": oneDay, "2 Jan 2024": oneDay,
	} {
		if m := momentOf(text); !m.from.Equal(at.Truncate(max(lasts, time.Minute))) || m.to.Sub(m.from) != lasts {
			t.Errorf("%q: %v to %v", text, m.from, m.to)
		}
	}
	if m := momentOf("2024-01-02T03:04"); m.to.Sub(m.from) != 2*anywhere+time.Minute || !m.from.Add(anywhere).Equal(at.Truncate(time.Minute)) {
		t.Errorf("without a zone: %v to %v", m.from, m.to)
	}
	if m := momentOf("Tue, 3 Sept 2024 03:04:05 GMT"); !m.from.Equal(time.Date(2024, 9, 3, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("in Sept: %v", m.from)
	}
}

// TestWhatIsNoTime: a text that has more or less than a time is none, and a time that cannot be is none.
func TestWhatIsNoTime(t *testing.T) {
	for _, text := range []string{
		"", " ", "T", "2024-", "2024-01-02T", "2024-01-02Tx", "2024-13-02", "2024-02-30", "2024-01-02T25:00:00Z", "2024-01-02T03:04:05+25:00", "2024-01-02T03:04:05+1", "2024-01 03:04", "2024 03:04", "1704164645", "2024-01-02T03:04:05Zulu time",
		"2 Jan", "Jan 2", "2 Jan 124", "- - -", "--", ",", "a,b", "2 é 2024", "2 J 2024", "Tue, 2 Jan 2024 GMT", "2 Jan 2024 03:04:05 NOINDEX", "2 Jan 2024 03:04:05 GMT, noindex", "32 Jan 2024", "x 2 Jan 2024",
	} {
		if m := momentOf(text); !m.from.IsZero() {
			t.Errorf("%q: %v to %v", text, m.from, m.to)
		}
	}
}

// TestExpiryAsSitesWriteIt: a page is unavailable after a time in any of the ways in which sites write it, and not before.
func TestExpiryAsSitesWriteIt(t *testing.T) {
	at := time.Date(2010, 6, 25, 15, 0, 0, 0, time.UTC)
	midnight := at.Truncate(oneDay)
	for text, want := range map[string]time.Time{
		"2010-06-25T15:00:00+0000": at, "2010-06-25T15:00Z": at, "2010-06-25T15:00": at, "2010-06-25 07:00:00 PST": at, "2010-06-25 15:00:00+00:00": at, "25 Jun 10 07:00:00 PST": at, "25 Jun 2010 11:00:00 EDT": at,
		"Fri, 25 Jun 2010 15:00 GMT": at, "Friday, 25-Jun-10 15:00:00 GMT": at, "25-Jun-2010 07:00:00 PST": at, "25 Jun 2010 15:00:00 XYZ": at, `"2010-06-25T15:00:00Z"`: at,
		"20100625": midnight, "25 June 2010": midnight, "25-JUN-2010": midnight, "Jun 25, 2010": midnight, "Jun 25 2010": midnight, "June 25, 2010, noarchive": midnight,
	} {
		if expired(text, want.Add(-time.Second)) || !expired(text, want.Add(time.Second)) {
			t.Errorf("%q does not end at %v", text, want)
		}
	}
}

func FuzzDates(f *testing.F) {
	f.Add("Tue, 02 Jan 2024 03:04:05 +0000")
	f.Add("2024-01-02T03:04:05.5+01:00")
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := dateOf(text); ok && (d.at.Year() < -1 || d.at.Year() > 10000 || d.lasts < 0) {
			t.Errorf("%q: %+v", text, d)
		}
	})
}
