package crawl

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter is the wait that a 429 or 503 asks for; zero: none.
func retryAfter(r *response) time.Duration {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0
	}
	v := strings.TrimSpace(r.header.Get("Retry-After"))
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 365*24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// pace keeps the politeness wait between the end of a response and the next request.
type pace struct {
	off  bool
	gap  time.Duration // the largest of ours, the manager's and Crawl-delay
	next time.Time
}

func (p *pace) ended(now time.Time, took, asked time.Duration) {
	// A host that answers slowly gets as long a rest as its answer took.
	p.next = now.Add(max(p.gap, min(took, MaxGap), min(asked, MaxRetryAfter)))
}

// left is what is left of the wait, which whoever comes next keeps.
func (p *pace) left(now time.Time) time.Duration {
	if p.off {
		return 0
	}
	return max(p.next.Sub(now), 0)
}

// more takes the Crawl-delay of robots.txt into account.
func (p *pace) more(delay time.Duration) {
	if d := min(delay, MaxGap); d > p.gap {
		p.next = p.next.Add(d - p.gap)
		p.gap = d
	}
}

// wait returns that much before the next request may be sent.
func (p *pace) wait(ctx context.Context, stop <-chan struct{}, early time.Duration) error {
	select {
	case <-stop:
		return errStop
	default:
	}
	d := max(time.Until(p.next), 0) - early
	if p.off || d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return errStop
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errStop = errors.New("crawl: told to stop")
