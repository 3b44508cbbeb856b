package intake

import "shoal/channel"

// Leads are the URLs out of the task's scope that the pages of a screened chunk link to, each once, and counts them in sum. The report of a crawl names those that the
// last peer found since it was started last; these are for those that were found before. There are at most as many of a crawl as a report may have.
func (t *Task) Leads(sum *Sum, pages []channel.Page) (leads []string) {
	if t.Scope == nil {
		return nil
	}
	most := min(interSlack+(t.Before+sum.Answered)*interOfPage, channel.MaxReportInter)
	seen := map[string]bool{}
	for i := range pages {
		for _, u := range pages[i].Links {
			if sum.Leads >= most {
				return leads
			}
			if seen[u] {
				continue
			}
			seen[u] = true
			if t.Scope.Contains(u) || !fetchable(u) || sum.LeadBytes+int64(len(u)) > channel.MaxReportURLs {
				continue
			}
			sum.Leads++
			sum.LeadBytes += int64(len(u))
			leads = append(leads, u)
		}
	}
	return leads
}

// WithLeads gives a report the URLs of other sites that earlier parts of its crawl found, as far as it has room for them. known reports whether an earlier
// crawl has told of one.
func WithLeads(r *channel.Report, leads []string, known func(u string) (bool, error)) error {
	bytes, told := 0, make(map[string]bool, len(r.Inter)+len(leads))
	for _, u := range r.Inter {
		told[u] = true
		bytes += len(u)
	}
	for _, u := range leads {
		if told[u] || len(r.Inter) >= channel.MaxReportInter || bytes+len(u) > channel.MaxReportURLs {
			continue
		}
		told[u] = true
		if is, err := known(u); err != nil {
			return err
		} else if !is {
			r.Inter = append(r.Inter, u)
			bytes += len(u)
		}
	}
	return nil
}

// fetchable reports whether a URL is written as a report may name it.
func fetchable(u string) bool {
	canonical, err := channel.Canonical(u)
	return err == nil && canonical == u
}
