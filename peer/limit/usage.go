package limit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// Tally counts what was done in a time.
type Tally struct {
	Bytes     int64 `json:"bytes"` // received and sent, packet headers included
	Pages     int64 `json:"pages"`
	Unchanged int64 `json:"pages_unchanged"`
	Updated   int64 `json:"tasks_updated"`
	Failed    int64 `json:"tasks_failed"`
}

func (t *Tally) add(o Tally) {
	t.Bytes += o.Bytes
	t.Pages += o.Pages
	t.Unchanged += o.Unchanged
	t.Updated += o.Updated
	t.Failed += o.Failed
}

// Done is what a computer has done today, in its month, and ever.
type Done struct {
	Today Tally     `json:"today"`
	Month Tally     `json:"month"`
	Ever  Tally     `json:"ever"`
	Begun time.Time `json:"month_since"`    // the first day of the month
	Since time.Time `json:"since,omitzero"` // of Ever
}

// Usage counts bytes by day and by month for the budgets, and what was done. It keeps them in a file, so that a restart does not begin
// anew. Each computer draws the day on which its month begins, so that not all volunteers' budgets begin on the same
// day. Usage is safe for concurrent use.
type Usage struct {
	path    string
	now     func() time.Time
	damaged error

	mu      sync.Mutex
	u       used
	changed bool  // since the last Save
	kept    *used // what the file holds, unless it cannot be written

	saving sync.Mutex // one Save at a time
}

type used struct {
	Begins int    `json:"month_begins"` // day of the month, 1 to 28
	Day    string `json:"day"`
	Month  string `json:"month"`
	InDay  int64  `json:"day_bytes"`
	InMon  int64  `json:"month_bytes"`
	// What was done in the day, in the month and ever. The bytes of the first two are those above.
	DayDone   Tally     `json:"day_done"`
	MonthDone Tally     `json:"month_done"`
	Ever      Tally     `json:"ever_done"`
	Since     time.Time `json:"since,omitzero"`
	// The day and the month that were counted before these, for when a clock that was wrong is set right.
	DayBefore   past `json:"day_before,omitzero"`
	MonthBefore past `json:"month_before,omitzero"`

	Lost time.Time `json:"lost,omitzero"` // when the file was last found damaged
}

// past is what was done in a day or a month, with its bytes.
type past struct {
	Name string `json:"name"`
	Done Tally  `json:"done"`
}

// OpenUsage reads the file, or starts counting if it does not exist or is damaged.
func OpenUsage(path string, now func() time.Time) (*Usage, error) {
	u := &Usage{path: path, now: now}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("limit: usage: %w", err)
	default:
		if err := json.Unmarshal(b, &u.u); err != nil { // a system crash left it half written
			u.u = used{Lost: now().Truncate(time.Second)}
			aside := u.Aside()
			u.damaged = fmt.Errorf("%s is damaged (%w), so that what was fetched this month is not known and its budget begins anew; the file is kept as %s",
				path, err, aside)
			if err := os.Rename(path, aside); err != nil {
				return nil, fmt.Errorf("limit: usage: %w", err)
			}
		}
	}
	u.u.InDay, u.u.InMon = max(u.u.InDay, 0), max(u.u.InMon, 0)
	if u.u.Since.IsZero() {
		u.u.Since, u.u.Ever.Bytes = now().Truncate(time.Second), u.u.InMon // a version before counted no further back
	}
	if u.u.Begins < 1 || u.u.Begins > 28 {
		u.u.Begins = 1 + rand.IntN(28)
	}
	_ = u.Save() // a disk that is full now may not be so later: it stays changed, and who keeps it tells
	return u, nil
}

// Damaged says that the file could not be read and what follows; nil: it could, or there was none.
func (u *Usage) Damaged() error { return u.damaged }

// Aside is where a damaged file is kept.
func (u *Usage) Aside() string { return u.path + ".damaged" }

// Lost returns when the file was found damaged in this month, in this process or in an earlier one: what was used before is not counted. The zero time: it was not.
func (u *Usage) Lost(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, month := u.times(now); u.u.Lost.Before(month.Begins) {
		return time.Time{}
	}
	return u.u.Lost
}

// Begin has the months begin on the same day as another's. What was counted stays counted: the month of now goes by another name only.
func (u *Usage) Begin(as *Usage) {
	as.mu.Lock()
	begins := as.u.Begins
	as.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.u.Begins == begins {
		return
	}
	now := u.now()
	u.u.turn(now)
	u.u.Begins, u.changed = begins, true
	u.u.Month, u.u.MonthBefore = u.u.month(now), past{}
}

// turn starts a new day or month if it is time.
func (u *used) turn(now time.Time) {
	if day := now.Format(time.DateOnly); u.Day != day {
		u.Day, u.InDay, u.DayDone, u.DayBefore = turned(past{u.Day, u.DayDone}, u.InDay, u.DayBefore, day, after(time.DateOnly, u.Day, 0, 1))
	}
	if month := u.month(now); u.Month != month {
		u.Month, u.InMon, u.MonthDone, u.MonthBefore = turned(past{u.Month, u.MonthDone}, u.InMon, u.MonthBefore, month, after(monthOnly, u.Month, 1, 0))
	}
}

// turned begins a time of another name, behind was with its bytes. One that was left a moment ago goes on with what it had: the clock was wrong then, or is now. What was
// counted under the other name belongs to it too, unless the time may have come to it by itself, from next to next.
func turned(was past, bytes int64, before past, name, next string) (string, int64, Tally, past) {
	was.Done.Bytes = bytes
	if before.Name != name {
		return name, 0, Tally{}, was
	}
	done := before.Done
	if name != next {
		done.add(was.Done)
	}
	bytes, done.Bytes = done.Bytes, 0
	return name, bytes, done, past{}
}

const monthOnly = "2006-01"

// after is the name of the day or month that comes after one; empty if that has no name.
func after(layout, name string, months, days int) string {
	t, err := time.Parse(layout, name)
	if err != nil {
		return ""
	}
	return t.AddDate(0, months, days).Format(layout)
}

// month is the name of the month of now.
func (u *used) month(now time.Time) string { return now.AddDate(0, 0, 1-u.Begins).Format(monthOnly) }

func (u *Usage) add(n int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.u.InDay += int64(n)
	u.u.InMon += int64(n)
	u.u.Ever.Bytes += int64(n)
	u.changed = true
	u.mu.Unlock()
}

// Count adds what was done, without its bytes.
func (u *Usage) Count(now time.Time, t Tally) {
	t.Bytes = 0
	if t == (Tally{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.u.turn(now)
	u.u.DayDone.add(t)
	u.u.MonthDone.add(t)
	u.u.Ever.add(t)
	u.changed = true
}

// Done returns what was done, as the file has it: what was once told is told again after the process was killed. If the file cannot be written,
// Done returns what this process knows.
func (u *Usage) Done(now time.Time) Done {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.u
	if u.kept != nil {
		of = *u.kept
	}
	of.turn(now)
	d := Done{Today: of.DayDone, Month: of.MonthDone, Ever: of.Ever, Since: of.Since}
	d.Today.Bytes, d.Month.Bytes = of.InDay, of.InMon
	_, month := u.times(now)
	d.Begun = month.Begins
	return d
}

// Term is a time that a budget is for.
type Term struct{ Begins, Ends time.Time }

// Times returns the day and the month of now, as the budgets have them.
func (u *Usage) Times(now time.Time) (day, month Term) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.times(now)
}

// times is Times. The caller holds u.mu.
func (u *Usage) times(now time.Time) (day, month Term) {
	date := func(month, day int) time.Time {
		return time.Date(now.Year(), now.Month()+time.Month(month), day, 0, 0, 0, 0, now.Location())
	}
	day = Term{date(0, now.Day()), date(0, now.Day()+1)}
	month = Term{date(-1, u.u.Begins), date(0, u.u.Begins)}
	if !month.Ends.After(now) {
		month = Term{date(0, u.u.Begins), date(1, u.u.Begins)}
	}
	return day, month
}

// Changed reports whether there is anything that the file lacks.
func (u *Usage) Changed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changed
}

// Used returns the bytes of this day and of this month.
func (u *Usage) Used(now time.Time) (day, month int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.u.turn(now)
	return u.u.InDay, u.u.InMon
}

// Save writes the file.
func (u *Usage) Save() (err error) {
	u.saving.Lock()
	defer u.saving.Unlock()
	u.mu.Lock()
	u.u.turn(u.now())
	kept := u.u
	b, err := json.Marshal(kept)
	u.changed = false
	u.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if err != nil {
			u.changed, u.kept = true, nil
		} else {
			u.kept = &kept
		}
	}()
	tmp := u.path + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("limit: usage: %w", err)
	}
	if err := os.Rename(tmp, u.path); err != nil {
		return fmt.Errorf("limit: usage: %w", err)
	}
	return nil
}
