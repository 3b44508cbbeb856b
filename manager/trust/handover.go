package trust

import (
	"cmp"
	"maps"
	"slices"

	"shoal/channel"
)

// A channel's trouble goes with the channel, from the Machine of the manager that had it to that of the next.

// SiteShards lists the shards that hold channels alone.
func SiteShards() []Shard {
	all := make([]Shard, Shards)
	for n := range all {
		all[n] = Shard{N: uint8(n), Sites: true}
	}
	return all
}

// SiteShardOf is the shard that a channel lies in.
func SiteShardOf(c channel.ID) Shard { return Shard{N: uint8(uint64(c) % Shards), Sites: true} }

// AppendSite appends what is known of one channel, in the form of a shard that holds no other; nothing if it had no trouble.
func (m *Machine) AppendSite(b []byte, c channel.ID) []byte {
	if m.sites[c] == nil {
		return b
	}
	return (&Machine{sites: map[channel.ID]*site{c: m.sites[c]}}).Append(b, SiteShardOf(c))
}

// AdoptSites takes in a shard of channels of another Machine: those that mine tells are judged here from now on. Of a channel of which both know, the longer watch and
// the later losers count; so to take in the same twice changes nothing.
func (m *Machine) AdoptSites(s Shard, b []byte, mine func(channel.ID) bool) error {
	if len(b) == 0 || !s.Sites {
		return nil
	}
	other := &Machine{sites: map[channel.ID]*site{}}
	if err := other.restoreSites(s, b); err != nil {
		return err
	}
	for _, c := range slices.Sorted(maps.Keys(other.sites)) {
		if !mine(c) {
			continue
		}
		if have := m.sites[c]; have == nil {
			m.sites[c] = other.sites[c]
		} else if before := *have; !have.adopt(other.sites[c]) || *have == before {
			continue
		}
		m.touchSite(c)
	}
	return nil
}

// adopt takes in what another Machine knows of the channel; false: nothing.
func (s *site) adopt(o *site) bool {
	if *s == *o {
		return false
	}
	type lost struct{ tag, day uint16 }
	var all []lost
	for _, of := range []*site{s, o} {
		for i, d := range of.days {
			if d == 0 {
				continue
			}
			l := lost{of.losers[i], d}
			if at := slices.IndexFunc(all, func(have lost) bool { return have.tag == l.tag }); at >= 0 {
				all[at].day = max(all[at].day, l.day)
				continue
			}
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b lost) int { return cmp.Compare(b.day, a.day) })
	views, times := max(s.views(), o.views()), max(s.times(), o.times())
	s.losers, s.days = [losersKept]uint16{}, [losersKept]uint16{}
	for i, l := range all[:min(len(all), losersKept)] {
		s.losers[i], s.days[i] = l.tag, l.day
	}
	s.until, s.valid, s.packed = max(s.until, o.until), max(s.valid, o.valid), times|views<<2
	return true
}
