package joint

import (
	"context"

	"shoal/internal/release"
)

// Heard asks for what peers have told a manager of their programs.
type Heard struct {
	Book  string `json:"book,omitempty"` // of the last page: a book of another name is read from its beginning
	After uint64 `json:"after,omitempty"`
}

// HeardPage is a part of it.
type HeardPage struct {
	Book    string           `json:"book"`
	Reports []release.Report `json:"reports,omitempty"`
	Next    uint64           `json:"next"` // for the next page
	More    bool             `json:"more,omitempty"`
}

// MostHeard bounds the reports of a page: 5,000 of them take about a quarter of an answer's bytes.
const MostHeard = 5000

// reports asks for a page of them.
var reports = question[Heard, HeardPage]{"reports of programs", func(_ context.Context, c *Config, of Heard) (HeardPage, error) {
	return c.Heard(of), nil
}}

// Reports asks another manager for a page of what peers have told it of their programs.
func (r *Running) Reports(ctx context.Context, peer string, of Heard) (HeardPage, error) {
	return reports.ask(ctx, &r.cfg, peer, of)
}
