package desk

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/archive"
)

// What is no failure, such as a page that asks not to be indexed, does not stand among the errors.
func TestSuccessesAreNoErrors(t *testing.T) {
	t.Parallel()
	out := overviewOf(manager.Overview{Errors: map[string]int64{"noindex": 1, "noarchive": 2, "expired": 3, "signalled": 4, "signal-right": 5, "skipped-type": 6, "timeout": 7, "dns": 8}})
	if len(out.Errors) != 2 || out.Errors["timeout"] != 7 || out.Errors["dns"] != 8 {
		t.Errorf("errors %v", out.Errors)
	}
	if len(out.Noted) != 6 || out.Noted["skipped-type"] != 6 {
		t.Errorf("noted %v", out.Noted)
	}
}

// The number of pages that are stored is that of the last count, so that it falls when pages go; what was ever stored stands apart. Before the first count it is not told.
func TestStoredPagesFall(t *testing.T) {
	t.Parallel()
	var o manager.Overview
	o.Archive = archive.Stats{Pages: 900}
	if out := overviewOf(o); out.Stored != nil {
		t.Errorf("before a count %d are stored", *out.Stored)
	}
	for _, n := range []uint64{700, 30} {
		o.Archive.Counted, o.Archive.Provisional, o.Archive.Verified, o.Archive.Withdrawn = time.Unix(1, 0), n, 2, 1
		if out := overviewOf(o); out.Stored == nil || *out.Stored != int64(n)+3 || out.Archived != 900 {
			t.Errorf("%d are there: %v stored, %d ever", n+3, out.Stored, out.Archived)
		}
	}
}

// A host that no peer has visited is not called crawled.
func TestHostsNeverVisited(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]channel.Host{
		"not visited yet": {Name: "https://a.example"},
		"visited":         {Name: "https://a.example", NextVisit: time.Unix(1, 0)},
		Blocked:           {Name: "https://a.example", Blocked: "asked to"},
	} {
		if got := hostOf(&h).State; got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
	}
}
