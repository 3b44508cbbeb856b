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

// Usage counts bytes by day and by month for the budgets. It keeps them in a file, so that a restart does not begin
// anew. Each computer draws the day on which its month begins, so that not all volunteers' budgets begin on the same
// day. Usage is safe for concurrent use.
type Usage struct {
	path string
	now  func() time.Time

	mu sync.Mutex
	u  used
}

type used struct {
	Begins int    `json:"month_begins"` // day of the month, 1 to 28
	Day    string `json:"day"`
	Month  string `json:"month"`
	InDay  int64  `json:"day_bytes"`
	InMon  int64  `json:"month_bytes"`
}

// OpenUsage reads the file, or starts counting if it does not exist.
func OpenUsage(path string, now func() time.Time) (*Usage, error) {
	u := &Usage{path: path, now: now}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("limit: usage: %w", err)
	default:
		if err := json.Unmarshal(b, &u.u); err != nil { // a system crash left it half written: start counting anew
			u.u = used{}
		}
	}
	u.u.InDay, u.u.InMon = max(u.u.InDay, 0), max(u.u.InMon, 0)
	if u.u.Begins < 1 || u.u.Begins > 28 {
		u.u.Begins = 1 + rand.IntN(28)
	}
	return u, u.Save()
}

// turn starts a new day or month if it is time.
func (u *Usage) turn(now time.Time) {
	day := now.Format(time.DateOnly)
	month := now.AddDate(0, 0, 1-u.u.Begins).Format("2006-01")
	if u.u.Day != day {
		u.u.Day, u.u.InDay = day, 0
	}
	if u.u.Month != month {
		u.u.Month, u.u.InMon = month, 0
	}
}

func (u *Usage) add(n int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.u.InDay += int64(n)
	u.u.InMon += int64(n)
	u.mu.Unlock()
}

// Used returns the bytes of this day and of this month.
func (u *Usage) Used(now time.Time) (day, month int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	return u.u.InDay, u.u.InMon
}

// Save writes the file.
func (u *Usage) Save() error {
	u.mu.Lock()
	u.turn(u.now())
	b, err := json.Marshal(u.u)
	u.mu.Unlock()
	if err != nil {
		return err
	}
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
