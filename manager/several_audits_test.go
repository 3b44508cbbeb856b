package manager

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// The hosts of audits are kept until no peer can be at them any more, and read back as they were written.
func TestAuditedHosts(t *testing.T) {
	now, term := time.UnixMilli(1_000_000), time.Minute
	of := func(host string, latest time.Duration) job {
		return job{Order: dispatch.Order{Latest: now.Add(latest)}, errand: &errand{host: host}}
	}
	a := auditedHosts{}
	if a.add(now, []job{{}}, term) {
		t.Error("a crawl counts as an audit")
	}
	if !a.add(now, []job{of("http://a.example", time.Second), of("http://b.example", time.Hour), {}, of("http://a.example", 0)}, term) {
		t.Error("audits are not noted")
	}
	got, err := readAudited(a.state())
	if err != nil || len(got) != 2 || !got[channel.KeyOf("http://a.example")].Equal(now.Add(time.Second+2*term)) || !got[channel.KeyOf("http://b.example")].Equal(now.Add(time.Hour+2*term)) {
		t.Errorf("%v, %v", got, err)
	}
	if a.add(now.Add(time.Hour), nil, term); len(a) != 1 {
		t.Errorf("an hour later: %v", a)
	}
	if _, err := readAudited([]byte("torn")); err == nil {
		t.Error("torn bytes were read")
	}
}
