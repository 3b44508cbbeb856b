package desk

import (
	"context"
	"iter"
	"testing"

	"shoal/channel"
	"shoal/manager"
)

// shelf is the channel database of a manager that is stopped. An operator has blocked some hosts.
type shelf struct {
	manager.Store
	chs     []channel.Channel
	blocked map[string]string
}

func (s *shelf) Take(context.Context) (channel.Epoch, error) { return 1, nil }

func (s *shelf) Import(_ context.Context, _ channel.Epoch, lines iter.Seq[channel.Line]) (out channel.Imported, err error) {
	out.First = channel.ID(len(s.chs) + 1)
	for l := range lines {
		s.chs, out.Added = append(s.chs, l.Channel), out.Added+1
	}
	out.Last = channel.ID(len(s.chs))
	return out, nil
}

func (s *shelf) CountCandidates(context.Context) (int, error) { return 0, nil }

func (s *shelf) Host(_ context.Context, name string) (channel.Host, error) {
	return channel.Host{Name: name, Blocked: s.blocked[name]}, nil
}

func (s *shelf) State(context.Context, string) ([]byte, error) { return nil, nil }

func (s *shelf) UpdateHost(_ context.Context, _ channel.Epoch, name string, change func(*channel.Host)) error {
	h := channel.Host{Name: name, Blocked: s.blocked[name]}
	change(&h)
	s.blocked[name] = h.Blocked
	return nil
}

func (s *shelf) ScanHosts(_ context.Context, f func(channel.Host) error) error {
	for name, why := range s.blocked {
		if err := f(channel.Host{Name: name, Blocked: why}); err != nil {
			return err
		}
	}
	return f(channel.Host{Name: "https://free.example"})
}

func (s *shelf) Scan(_ context.Context, first, last channel.ID, f func(channel.Hot) error) error {
	for i := first; i <= last; i++ {
		if err := f(channel.Hot{ID: i, Host: channel.KeyOf(s.chs[i-1].Scope.Host)}); err != nil {
			return err
		}
	}
	return nil
}

// TestChannelsOnBlockedHosts adds channels while the manager is stopped: how many of the new ones are on blocked hosts is told, as a manager that runs tells it.
func TestChannelsOnBlockedHosts(t *testing.T) {
	d, err := Open(t.Context(), Config{Store: &shelf{blocked: map[string]string{"https://bad.example": "it asked for it", "http://bad.example": "it asked for it"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		urls []string
		want int
	}{
		{[]string{"https://free.example/"}, 0},
		{[]string{"https://bad.example/", "https://free.example/a/", "https://bad.example/b/"}, 2},
		{[]string{"https://bad.example:8443/"}, 1}, // the host is blocked, whatever the port
	} {
		chs, err := ParseSites(c.urls)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.AddChannels(t.Context(), chs); err != nil || got.Added != len(c.urls) || got.Blocked != c.want {
			t.Errorf("%q: %+v, %v; want %d on blocked hosts", c.urls, got, err, c.want)
		}
	}
}
