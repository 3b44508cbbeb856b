package main

import (
	"context"
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type managersCmd struct{ target }

// Run lists the managers that share the network.
func (c *managersCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var all api.Managers
		if err := a.Do(ctx, http.MethodGet, "/managers", nil, nil, &all); err != nil {
			return err
		}
		if len(all.Managers) == 0 {
			_, err := fmt.Fprintln(s.out, "This network has one manager. shoal manager --several has others work beside it.")
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "MACHINE\tMANAGER\tPARTITIONS\tCHANNELS\tOUT\tUPDATES/MIN\tSINCE\tADDRESS\tVERSION\tARCHIVE BEHIND")
		for _, m := range all.Managers {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.1f\t%s\t%s\t%s\t%s\n", plain.Printable(m.Machine), plain.Printable(m.Peer), partsOf(&m), m.Figures.Channels, m.Figures.Out, m.Figures.UpdatesMin,
				when(m.Since), plain.Printable(firstOf(m.Addrs)), plain.Printable(m.Version), plain.Span(m.Figures.ArchiveLag.Duration()))
		}
		return w.Flush()
	})
}

// partsOf says which share of the hosts a manager has.
func partsOf(m *desk.Manager) string {
	switch {
	case m.ArchiveOnly:
		return "archive alone"
	case m.Leaving:
		return fmt.Sprintf("%d, leaving", m.Partitions)
	}
	return fmt.Sprint(m.Partitions)
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// managersMetrics are those about the managers that share the network, as this one sees them. One that is alone has all.
func (st *station) managersMetrics(reg *prometheus.Registry) error {
	all := func() []desk.Manager {
		if st.others == nil {
			return []desk.Manager{{Partitions: channel.Parts, Here: true}}
		}
		here, _ := st.managers()
		return here
	}
	count := func(archives bool) func() float64 {
		return func() (n float64) {
			for _, m := range all() {
				if m.ArchiveOnly == archives {
					n++
				}
			}
			return n
		}
	}
	for _, m := range []struct {
		name, help string
		of         func() float64
	}{
		{"shoal_managers", "Managers that share the network and were heard of lately, this one with them.", count(false)},
		{"shoal_managers_archive_only", "Processes beside them that run an archive alone.", count(true)},
		{"shoal_manager_partitions", "Of the 256 partitions of the Web hosts, those that this manager has.", func() float64 {
			for _, m := range all() {
				if m.Here {
					return float64(m.Partitions)
				}
			}
			return 0
		}},
		{"shoal_manager_partitions_free", "Partitions that no manager has: what is of them is not crawled.", func() float64 {
			n := channel.Parts
			for _, m := range all() {
				n -= m.Partitions
			}
			return float64(n)
		}},
	} {
		if err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.name, Help: m.help}, m.of)); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}
