package scalesim

import (
	"context"
	"math"
)

// Costs are what was measured on real servers; docs/scale.md says how and when.
type Costs struct {
	// Of the managers' beats, notes and looks at the log, by BenchmarkPresence with 1 to 64 managers.
	Statements float64 // a second and manager
	RestCPU    float64 // of PostgreSQL, ms a second and manager
	PairCPU    float64 // likewise, for each pair of managers: each beat reads what all tell of themselves
	RestWAL    float64 // bytes a second and manager

	// Of pages, by make bench-postgres.
	PageCPU   float64 // of PostgreSQL, ms a page
	PageWAL   float64 // bytes
	PageBytes float64 // of the ledger's log, which each manager reads and keeps
	Pack      float64 // of an archive's processor, ms
	PageWARC  float64 // bytes in the bucket, compressed

	// Of tasks, by make bench-postgres: a handing-out and its report, each in batches of 256.
	TaskCPU float64 // of PostgreSQL, ms

	HotBytes float64 // of a channel, in PostgreSQL's memory
}

// Measured are the costs that this version has.
func Measured() Costs {
	return Costs{
		Statements: 19, RestCPU: 1.5, PairCPU: .003, RestWAL: 340,
		PageCPU: .0015, PageWAL: 202, PageBytes: 200, Pack: .16, PageWARC: 3000,
		TaskCPU: .034, HotBytes: 300,
	}
}

const perCore = 1000. // ms of a core's second

// database is the load of the one PostgreSQL server.
func (c *Command) database(context.Context) ([]Figure, error) {
	k, n := Measured(), float64(c.Managers)
	pages := c.PagesDay / 86400
	tasks := pages / c.PerTask
	rest := (k.RestCPU*n + k.PairCPU*n*n) / perCore
	work := (k.PageCPU*pages + k.TaskCPU*tasks) / perCore
	part := "PostgreSQL"
	return []Figure{
		{part, "statements by which managers know of each other", k.Statements * n, "/s", computed},
		{part, "processor for these", rest, "cores", computed},
		{part, "processor for pages and tasks", work, "cores", computed},
		{part, "managers at which being there takes a core", (math.Sqrt(k.RestCPU*k.RestCPU+4*k.PairCPU*perCore) - k.RestCPU) / (2 * k.PairCPU), "", computed},
		{part, "log written (WAL)", (k.RestWAL*n + k.PageWAL*pages) / 1e6, "MB/s", computed},
		{part, "the archive's log read by all managers", k.PageBytes * pages * n / 1e6, "MB/s", computed},
		{part, "memory for the channels", k.HotBytes * c.Channels / 1e9, "GB", computed},
	}, nil
}

// copies is what does not get less by more managers, and what does.
func (c *Command) copies(context.Context) ([]Figure, error) {
	k, n := Measured(), float64(c.Managers)
	pages := c.PagesDay / 86400
	const disk = 4e12 // bytes of a large SSD
	return []Figure{
		{"archive", "processor for packing, all managers", k.Pack * pages / perCore, "cores", computed},
		{"archive", "processor for packing, each manager", k.Pack * pages / perCore / n, "cores", computed},
		{"archive", "bytes in the bucket", k.PageWARC * c.PagesDay / 1e12, "TB a day", computed},
		{"copy of the ledger, at each manager", "log read", k.PageBytes * pages / 1e6, "MB/s", computed},
		{"copy of the ledger, at each manager", "growth, if every page is a new one", k.PageBytes * c.PagesDay / 1e9, "GB a day", computed},
		{"copy of the ledger, at each manager", "a disk of 4 TB is full after", disk / (k.PageBytes * c.PagesDay), "days", computed},
	}, nil
}
