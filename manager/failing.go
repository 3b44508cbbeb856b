package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"shoal/channel"
)

// Failing says when a channel whose crawl failed is crawled again, and after how many failures it is given up. It
// concerns crawls that took place and reported that nothing could be fetched. lease.Terms concern tasks without a
// report.
type Failing struct {
	// Pause is the wait after the first failed crawl, if the strategy would not wait longer anyhow, which it does only for channels that
	// were crawled before; it doubles with each further one in a row, up to MaxPause. Defaults 15 minutes and a day; zero: none.
	Pause, MaxPause time.Duration
	// Limit is how many crawls may fail in a row; then the channel is given up, until an operator resumes it. Default 12, which with the
	// pauses takes more than five days; zero: no limit.
	Limit int
}

func (f Failing) validate() error {
	switch {
	case f.Pause < 0 || f.MaxPause < f.Pause:
		return fmt.Errorf("%w: pauses of %v to %v after a failed crawl: negative or reversed", ErrConfig, f.Pause, f.MaxPause)
	case f.Limit < 0:
		return fmt.Errorf("%w: %d failed crawls in a row, must not be negative", ErrConfig, f.Limit)
	}
	return nil
}

// pause is the wait after n failed crawls in a row.
func (f Failing) pause(n int) time.Duration {
	d := f.Pause
	for ; n > 1 && d < f.MaxPause; n-- {
		d *= 2
	}
	return min(d, f.MaxPause)
}

// spent reports whether after n failed crawls in a row a channel is given up. One that was resumed has as many again.
func (f Failing) spent(n int) bool { return f.Limit > 0 && n > 0 && n%f.Limit == 0 }

// whatFailed is why a crawl brought nothing, with the errors that it met.
func whatFailed(r *channel.Report) string {
	type kind struct {
		name string
		n    int
	}
	var all []kind
	for name, n := range r.Errors {
		if n > 0 && !channel.Noted(name) {
			all = append(all, kind{name, n})
		}
	}
	slices.SortFunc(all, func(a, b kind) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.name, b.name)
	})
	var words []string
	for i, k := range all {
		if i == failedKinds {
			words = append(words, "and others")
			break
		}
		words = append(words, fmt.Sprintf("%s %d times", k.name, k.n))
		if k.n == 1 {
			words[i] = k.name
		}
	}
	if len(words) == 0 {
		return r.Reason
	}
	return strings.TrimSpace(r.Reason + " (" + strings.Join(words, ", ") + ")")
}

const failedKinds = 3 // kinds of errors that are named
