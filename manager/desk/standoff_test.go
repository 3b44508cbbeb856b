package desk

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager"
)

// rack is the channel database of a stopped manager with a channel of one host.
type rack struct {
	manager.Store
	lease  []byte
	host   channel.Host
	before time.Time // until when the host was left alone when its task was called back
}

func (r *rack) Take(context.Context) (channel.Epoch, error) { return 1, nil }

func (r *rack) Channel(context.Context, channel.ID) (channel.Channel, error) {
	return channel.Channel{ID: 1, Scope: channel.Scope{Host: r.host.Name}}, nil
}

func (r *rack) Search(context.Context, string, string, int) ([]channel.Channel, string, error) {
	ch, err := r.Channel(context.Background(), 1)
	return []channel.Channel{ch}, "", err
}

func (r *rack) Remove(context.Context, channel.Epoch, channel.ID) error         { return nil }
func (r *rack) Lease(context.Context, channel.ID) ([]byte, error)               { return r.lease, nil }
func (r *rack) State(context.Context, string) ([]byte, error)                   { return nil, nil }
func (r *rack) PutState(context.Context, channel.Epoch, string, []byte) error   { return nil }
func (r *rack) ScanHosts(_ context.Context, f func(channel.Host) error) error   { return f(r.host) }
func (r *rack) Host(_ context.Context, name string) (h channel.Host, err error) { return r.host, nil }
func (r *rack) UpdateHost(_ context.Context, _ channel.Epoch, name string, change func(*channel.Host)) error {
	if name == r.host.Name {
		change(&r.host)
	}
	return nil
}

// recalled is an archive that notes until when the host is left alone as a task is called back.
type recalled struct {
	Archive
	db *rack
}

func (a recalled) Recall(context.Context, channel.ID) error {
	a.db.before = a.db.host.NextVisit
	return nil
}

// TestStoppedManagerStandsOff has an operator remove a channel, or block its host, while the manager is stopped and a peer may be at the host. The peer may not hear of it
// before its lease is over: the manager leaves the host alone as long when it starts.
func TestStoppedManagerStandsOff(t *testing.T) {
	const name = "https://a.example"
	now := time.Unix(1e9, 0)
	out := func(wait time.Duration) []byte {
		var i lease.Issue
		if _, err := i.Next(now, now.Add(wait), lease.Terms{}); err != nil {
			t.Fatal(err)
		}
		return i.Append(nil)
	}
	later := now.Add(5 * time.Hour)
	for what, tt := range map[string]struct {
		lease    []byte
		next     time.Time
		archive  bool
		want     time.Time
		recalled bool
	}{
		"nothing was ever out":         {nil, time.Time{}, true, time.Time{}, false},
		"a task is out":                {out(time.Minute), time.Time{}, true, now.Add(resetWait), true},
		"a task waits for its claim":   {out(2 * time.Hour), time.Time{}, true, now.Add(2 * time.Hour), true},
		"the host is left alone":       {out(time.Minute), later, true, later, true},
		"the archive cannot be opened": {out(time.Minute), time.Time{}, false, now.Add(resetWait), false},
	} {
		for how, do := range map[string]func(*Desk) error{
			"removed": func(d *Desk) error { return d.Remove(t.Context(), 1) },
			"blocked": func(d *Desk) error { return d.Block(t.Context(), "a.example", "asked to") },
		} {
			db := &rack{lease: tt.lease, host: channel.Host{Name: name, NextVisit: tt.next}}
			cfg := Config{Store: db, Now: func() time.Time { return now }}
			if tt.archive {
				cfg.Archive = recalled{db: db}
			}
			d, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := do(d); err != nil {
				t.Errorf("%s, %s: %v", what, how, err)
			}
			if got := db.host.NextVisit; !got.Equal(tt.want) {
				t.Errorf("%s, %s: the host is left alone until %v, want %v", what, how, got, tt.want)
			}
			if tt.recalled && !db.before.Equal(tt.want) {
				t.Errorf("%s, %s: when the task was called back the host was left alone until %v, want %v", what, how, db.before, tt.want)
			}
		}
	}
}
