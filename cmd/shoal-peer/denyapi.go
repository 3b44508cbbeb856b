package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"shoal/peer/limit"
)

// deny puts a domain on the deny list or takes it off, and gives back the tasks of sites below it.
func (s *station) deny(w http.ResponseWriter, domain string, allow bool) {
	if !limit.IsDomain(domain) {
		fail(w, http.StatusBadRequest, fmt.Errorf("%q is no domain; want one such as example.org", domain))
		return
	}
	domain = limit.Domain(domain) // at every port
	set := s.settings()
	if from := set.from["deny"]; from != "" && from != inFile(s.file) {
		fail(w, http.StatusConflict, fmt.Errorf("the list of denied domains is set by %s, which the settings file cannot change", strings.TrimPrefix(from, "your settings, ")))
		return
	}
	list := slices.DeleteFunc(slices.Clone(set.Deny), func(d string) bool { return limit.Domain(d) == domain })
	if allow && len(list) == len(set.Deny) {
		above := slices.IndexFunc(list, func(d string) bool { return strings.HasSuffix(domain, "."+limit.Domain(d)) })
		told := deniedTold{Domain: domain, Unlisted: true}
		if above >= 0 {
			told.Above = list[above]
		}
		answer(w, told)
		return
	}
	if !allow {
		list = append(list, domain)
	}
	if len(list) > maxDeny {
		fail(w, http.StatusConflict, fmt.Errorf("the list of denied domains is full: it has %d", maxDeny))
		return
	}
	var change changes = map[string]any{"deny": list}
	if len(list) == 0 {
		change["deny"] = nil
	}
	if err := s.change(change); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	n := 0
	if p := s.running(); p != nil && !allow {
		for _, st := range p.statuses() {
			for _, t := range append(st.Running, st.Waiting...) {
				if p.refuse(t.Host) != nil {
					n++
				}
			}
		}
	}
	answer(w, deniedTold{Domain: domain, Tasks: n, Suffix: !allow && isSuffix(domain)})
}

// isSuffix reports whether the domain is one below which anybody may have a site, such as com or co.uk.
func isSuffix(domain string) bool {
	if isAddr(domain) {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(domain)
	return suffix == domain && (icann || strings.Contains(domain, ".")) // one without a dot that no list has is the end of no public name
}

// deniedTold is the answer to an order to deny.
type deniedTold struct {
	Domain string `json:"domain"`
	Tasks  int    `json:"tasks_given_back"`
	Suffix bool   `json:"suffix,omitempty"` // it is no site's: the sites of many are below it

	Unlisted bool   `json:"unlisted,omitempty"` // it was to be taken off the list, and is not on it
	Above    string `json:"above,omitempty"`    // what is on the list and keeps it away all the same
}
