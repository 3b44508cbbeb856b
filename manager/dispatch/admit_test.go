package dispatch

import (
	"testing"
	"time"

	"shoal/channel"
)

// TestHostState changes each thing that is known of a host, and looks that the change lasts and leaves the others alone.
func TestHostState(t *testing.T) {
	const key = channel.HostKey(7)
	m := New(epoch, Config{}, nil, nil, nil)
	m.Hurry(key, epoch)
	if len(m.hosts) != 0 {
		t.Fatal("a host of which nothing is known was hurried")
	}
	m.Leave(key, epoch.Add(time.Hour))
	m.Block(key, "asked to")
	m.Hurry(key, epoch.Add(2*time.Hour))
	if got := m.hosts[key].next; !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("next visit at %v: to hurry put it off", got)
	}
	m.Hurry(key, epoch.Add(time.Minute))
	if got := m.hosts[key].next; !got.Equal(epoch.Add(time.Minute)) {
		t.Errorf("next visit at %v, want it in a minute", got)
	}
	if m.Blocked(key) != "asked to" {
		t.Error("the host is not blocked any more")
	}
	m.Block(key, "")
	m.tidy(epoch.Add(2 * tidyEvery))
	if len(m.hosts) != 0 {
		t.Error("a host with which nothing is up was not forgotten")
	}
}
