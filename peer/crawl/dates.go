package crawl

import (
	"strings"
	"time"
)

// Sites write times as RFC 3339, RFC 822 or a mixture of these has them, or as neither does. A time is taken apart first, so that each way to
// write a date goes with each way to write the time of day and the zone.

// date is a time that a site has written.
type date struct {
	at    time.Time     // when it begins; as in UTC if the zone is not known
	lasts time.Duration // 0: to the second
	zoned bool          // it says in which zone it is, or is a day or more, where that does not count
}

const maxDate = 64 // octets of a time

// dateOf reads a time. Of days of the week it takes any, in any language.
func dateOf(text string) (d date, ok bool) {
	v := strings.TrimSpace(text)
	if v == "" || len(v) > maxDate {
		return d, false
	}
	day, lasts, rest, ok := w3cDay(v)
	if !ok {
		day, lasts, rest, ok = mailDay(v)
	}
	if !ok || rest == "" {
		return date{day, lasts, true}, ok
	}
	if lasts != oneDay {
		return d, false
	}
	clock, zone := cutClock(rest)
	since, lasts, ok := timeOfDay(clock)
	if !ok {
		return d, false
	}
	offset, zoned, ok := zoneOf(zone)
	return date{day.Add(since - offset), lasts, zoned}, ok
}

const oneDay = 24 * time.Hour

// w3cDay reads the date of "2006-01-02T15:04:05Z", which may end after the year or the month, and gives what follows it.
func w3cDay(v string) (day time.Time, lasts time.Duration, rest string, ok bool) {
	if i := strings.IndexAny(v, "Tt "); i >= 0 {
		if v, rest = v[:i], strings.TrimSpace(v[i+1:]); rest == "" {
			return day, 0, "", false
		}
	}
	for _, f := range []struct {
		layout string
		lasts  time.Duration
	}{{time.DateOnly, oneDay}, {"20060102", oneDay}, {"2006-01", 31 * oneDay}, {"2006", 366 * oneDay}} {
		if day, err := time.Parse(f.layout, v); err == nil {
			return day, f.lasts, rest, true
		}
	}
	return day, 0, "", false
}

// mailDay reads the date of "Mon, 2 Jan 2006 15:04:05 GMT", in which hyphens may stand and the month may be first, and gives what follows it.
func mailDay(v string) (day time.Time, lasts time.Duration, rest string, ok bool) {
	if weekday, after, comma := strings.Cut(v, ","); comma && !strings.ContainsAny(weekday, "0123456789") {
		v = after
	}
	fields := strings.Fields(v)
	if len(fields) > 0 && strings.Count(fields[0], "-") == 2 {
		fields = append(strings.Split(fields[0], "-"), fields[1:]...)
	}
	if len(fields) < 3 {
		return day, 0, "", false
	}
	number, month, year := fields[0], fields[1], fields[2]
	if number != "" && (number[0] < '0' || number[0] > '9') {
		number, month = strings.TrimSuffix(month, ","), number
	}
	layout := "2 Jan 2006"
	if len(year) == 2 {
		layout = "2 Jan 06"
	}
	// Some write the month's whole name, or "Sept".
	day, err := time.Parse(layout, number+" "+month[:min(len(month), len("Jan"))]+" "+year)
	return day, oneDay, strings.Join(fields[3:], " "), err == nil
}

// cutClock cuts a time of day from the zone that follows it, perhaps after a space.
func cutClock(s string) (clock, zone string) {
	n := len(s) - len(strings.TrimLeft(s, "0123456789:.,"))
	zone, _, _ = strings.Cut(s[n:], "(") // "+0000 (UTC)"
	return s[:n], strings.TrimSpace(zone)
}

// timeOfDay reads a time of day and tells how long it lasts.
func timeOfDay(clock string) (since, lasts time.Duration, ok bool) {
	for _, f := range []struct {
		layout string
		lasts  time.Duration
	}{{"15:04:05", 0}, {"15:04", time.Minute}, {"150405", 0}, {"1504", time.Minute}} {
		if t, err := time.Parse(f.layout, clock); err == nil {
			return t.Sub(t.Truncate(oneDay)), f.lasts, true
		}
	}
	return 0, 0, false
}

// zones are the names of zones in RFC 822, in hours from UTC. The package time takes names that it does not know for UTC.
var zones = map[string]int{"Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}

// zoneOf reads a zone: a name, or a distance from UTC. It is not known if there is none, or if its name is another.
func zoneOf(zone string) (offset time.Duration, known, ok bool) {
	zone = strings.ToUpper(zone)
	if hours, ok := zones[zone]; ok {
		return time.Duration(hours) * time.Hour, true, true
	}
	if i := strings.IndexAny(zone, "+-"); i == 0 || i > 0 && (zone[:i] == "GMT" || zone[:i] == "UTC") {
		for _, layout := range []string{"-0700", "-07:00", "-07"} {
			if t, err := time.Parse(layout, zone[i:]); err == nil {
				_, seconds := t.Zone()
				return time.Duration(seconds) * time.Second, true, true
			}
		}
		return 0, false, false
	}
	return 0, false, len(zone) <= maxZone && strings.Trim(zone, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

const maxZone = 5 // letters of a zone's name
