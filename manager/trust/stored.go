package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"shoal/channel"
)

// What is stored lies in shards, so that a change costs one of them and none exceeds what a channel database takes as a state. Names are those of ShardName.
const (
	Shards   = 64
	peersV1  = 1
	sitesV1  = 1
	tailV1   = 1
	peerSize = 8*3 + 4*7 + 3 + 1 + 1 // without the tables
	siteSize = 8 + 16
	tailSize = 1 + 4*tailBins + 8*3
)

// PeerBytes and SiteBytes bound the stored form of one peer and one channel, the channel's number included.
const (
	PeerBytes = peerSize + 8*(domainsKept+tasksKept)
	SiteBytes = siteSize
)

// ErrMalformed is wrapped for bytes that are no stored state.
var ErrMalformed = errors.New("trust: malformed state")

// Shard names a part of the state.
type Shard struct {
	Sites bool // channels; else peers
	N     uint8
	Tail  bool // what was learnt of the honest tail: one shard
}

// Name is the name under which a shard is stored.
func (s Shard) Name() string {
	switch {
	case s.Tail:
		return "trust-tail"
	case s.Sites:
		return fmt.Sprintf("trust-channels-%02d", s.N)
	}
	return fmt.Sprintf("trust-peers-%02d", s.N)
}

// AllShards lists the shards that there can be, to read them all at a start.
func AllShards() []Shard {
	all := []Shard{{Tail: true}}
	for n := range uint8(Shards) {
		all = append(all, Shard{N: n}, Shard{N: n, Sites: true})
	}
	return all
}

// PeerShards lists those that hold peers alone: what one manager's Machine can adopt of another's.
func PeerShards() []Shard {
	all := make([]Shard, Shards)
	for n := range all {
		all[n].N = uint8(n)
	}
	return all
}

// ShardOf is the shard that a peer lies in.
func ShardOf(n Peer) Shard { return Shard{N: uint8(n % Shards)} }

func (m *Machine) touch(n Peer) { m.dirty[uint8(n%Shards)] = true }

func (m *Machine) touchSite(c channel.ID) { m.dirtySites[uint8(uint64(c)%Shards)] = true }

// Changed lists the shards that changed since it was last called, in a fixed order.
func (m *Machine) Changed() []Shard {
	var all []Shard
	for n := range uint8(Shards) {
		if m.dirty[n] {
			all = append(all, Shard{N: n})
		}
		if m.dirtySites[n] {
			all = append(all, Shard{N: n, Sites: true})
		}
	}
	if len(all) > 0 {
		all = append(all, Shard{Tail: true})
	}
	clear(m.dirty)
	clear(m.dirtySites)
	return all
}

// Append appends the stored form of a shard.
func (m *Machine) Append(b []byte, s Shard) []byte {
	switch {
	case s.Tail:
		b = append(b, tailV1)
		for _, n := range m.tail.peaks {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = binary.BigEndian.AppendUint64(b, m.tail.checks)
		b = binary.BigEndian.AppendUint64(b, m.tail.lost)
		return binary.BigEndian.AppendUint64(b, math.Float64bits(m.tail.days))
	case s.Sites:
		b = append(b, sitesV1)
		var ids []channel.ID
		for c := range m.sites {
			if uint8(uint64(c)%Shards) == s.N {
				ids = append(ids, c)
			}
		}
		slices.Sort(ids)
		for _, c := range ids {
			b = m.sites[c].append(binary.BigEndian.AppendUint64(b, uint64(c)))
		}
		return b
	}
	b = append(b, peersV1)
	var ids []Peer
	for n := range m.peers {
		if uint8(n%Shards) == s.N {
			ids = append(ids, n)
		}
	}
	slices.Sort(ids)
	for _, n := range ids {
		b = m.peers[n].append(b)
	}
	return b
}

// Restore takes in the stored form of a shard, of a Machine that knows nothing of it yet.
func (m *Machine) Restore(s Shard, b []byte) error {
	if len(b) == 0 {
		return nil // never stored
	}
	switch {
	case s.Tail:
		return m.tail.restore(b)
	case s.Sites:
		return m.restoreSites(s, b)
	}
	return m.restorePeers(s, b)
}

func (t *tail) restore(b []byte) error {
	if len(b) != tailSize || b[0] != tailV1 {
		return fmt.Errorf("%w: tail of %d bytes", ErrMalformed, len(b))
	}
	n := tail{}
	for i := range n.peaks {
		n.peaks[i] = binary.BigEndian.Uint32(b[1+4*i:])
	}
	rest := b[1+4*tailBins:]
	n.checks, n.lost = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
	if n.days = math.Float64frombits(binary.BigEndian.Uint64(rest[16:])); !(n.days >= 0) || math.IsInf(n.days, 0) {
		return fmt.Errorf("%w: %v days of work", ErrMalformed, n.days)
	}
	*t = n
	return nil
}

func (s *site) append(b []byte) []byte {
	for i := range s.losers {
		b = binary.BigEndian.AppendUint16(b, s.losers[i])
		b = binary.BigEndian.AppendUint16(b, s.days[i])
	}
	b = binary.BigEndian.AppendUint16(b, s.until)
	return append(b, s.valid, s.packed)
}

func (m *Machine) restoreSites(s Shard, b []byte) error {
	if b[0] != sitesV1 || (len(b)-1)%siteSize != 0 {
		return fmt.Errorf("%w: channels in %d bytes of version %d", ErrMalformed, len(b), b[0])
	}
	last := channel.ID(0)
	for b = b[1:]; len(b) > 0; b = b[siteSize:] {
		c := channel.ID(binary.BigEndian.Uint64(b))
		if uint8(uint64(c)%Shards) != s.N || c < last || m.sites[c] != nil {
			return fmt.Errorf("%w: channel %d in %s", ErrMalformed, c, s.Name())
		}
		last = c
		n := &site{until: binary.BigEndian.Uint16(b[20:]), valid: b[22], packed: b[23]}
		if n.views() > viewing {
			return fmt.Errorf("%w: %d crawls of channel %d by others", ErrMalformed, n.views(), c)
		}
		for i := range n.losers {
			n.losers[i], n.days[i] = binary.BigEndian.Uint16(b[8+4*i:]), binary.BigEndian.Uint16(b[10+4*i:])
		}
		m.sites[c] = n
	}
	return nil
}

// Adopt takes in a shard of another Machine, whose channels this one judges from now on: peers that it knows and this one does not, and the worse of what both
// know of a peer, but for its probation, which counts once passed anywhere. A pardon ends what was known before it: where one Machine has heard of
// more pardons of a peer than the other, what that one knows counts alone.
func (m *Machine) Adopt(s Shard, b []byte) error {
	if len(b) == 0 || s.Tail || s.Sites {
		return nil
	}
	other := &Machine{cfg: m.cfg, peers: map[Peer]*peer{}, convicted: map[Account]int{}, tags: map[uint16]int{}, places: map[Prefix]*places{}}
	if err := other.restorePeers(s, b); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(other.peers)) {
		m.adopt(other.peers[n])
	}
	return nil
}

func (m *Machine) adopt(o *peer) {
	p := m.peers[o.number]
	if p == nil {
		m.peers[o.number] = o
		m.seat(o)
		m.count(o, 1)
		m.touch(o.number)
		return
	}
	switch {
	case p.pardons > o.pardons: // the other one has not heard of the pardon
	case p.pardons < o.pardons:
		m.stand(p, o.standing)
		p.score, p.peak, p.suspect, p.looked, p.domains, p.charged, p.pardons = o.score, o.peak, o.suspect, o.looked, o.domains, o.charged, o.pardons
	default:
		if p.standing == Newcomer && o.standing == Established || p.standing < Suspended && o.standing >= Suspended {
			m.stand(p, o.standing)
		}
		for i := range p.score {
			p.score[i] = max(p.score[i], o.score[i])
		}
		p.peak, p.suspect, p.looked = max(p.peak, o.peak), p.suspect || o.suspect, p.looked || o.looked
		adoptSums(p.domains[:], o.domains[:])
		adoptSums(p.charged[:], o.charged[:])
	}
	p.tasks, p.checks, p.lost = max(p.tasks, o.tasks), max(p.checks, o.checks), max(p.lost, o.lost)
	m.touch(p.number)
}

// adoptSums takes in what tasks or domains have added by what another Machine knows: a score that is taken over comes with what its caps go by.
func adoptSums(table, others []sum) {
	for _, o := range used(others) {
		e := &table[0] // its own entry, or the least
		for i := range table {
			if table[i].by > 0 && table[i].key == o.key {
				e = &table[i]
				break
			}
			if table[i].by < e.by {
				e = &table[i]
			}
		}
		if o.by > e.by {
			*e = o
		}
	}
}

// stand gives a peer another standing.
func (m *Machine) stand(p *peer, to Standing) {
	m.count(p, -1)
	p.standing = to
	m.count(p, 1)
	if to == Established {
		m.vacate(p)
	} else {
		m.seat(p)
	}
}

// count adds a peer to those of its standing, or takes it off.
func (m *Machine) count(p *peer, n int) {
	switch p.standing {
	case Newcomer:
		m.newcomers += n
	case Established:
		m.established += n
	default:
		m.convicted[p.account] += n
		m.tags[tag(p.number)] += n
	}
}

// The bits of a stored peer's flags.
const (
	suspectFlag = 1
	lookedFlag  = 2
)

func (p *peer) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.number))
	b = binary.BigEndian.AppendUint64(b, uint64(p.account))
	b = binary.BigEndian.AppendUint64(b, uint64(p.prefix))
	for _, x := range [...]float32{p.score[0], p.score[1], p.score[2], p.peak} {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(x))
	}
	for _, n := range [...]uint32{p.tasks, p.checks, p.lost} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	flags := byte(0)
	if p.suspect {
		flags |= suspectFlag
	}
	if p.looked {
		flags |= lookedFlag
	}
	domains, charged := used(p.domains[:]), used(p.charged[:])
	b = append(b, byte(p.standing), flags, p.pardons, byte(len(domains)), byte(len(charged)))
	for _, e := range slices.Concat(domains, charged) {
		b = binary.BigEndian.AppendUint32(b, e.key)
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(e.by))
	}
	return b
}

// used are the entries of a table that count.
func used(table []sum) (entries []sum) {
	for _, e := range table {
		if e.by > 0 {
			entries = append(entries, e)
		}
	}
	return entries
}

func (m *Machine) restorePeers(s Shard, b []byte) error {
	if b[0] != peersV1 {
		return fmt.Errorf("%w: peers of version %d", ErrMalformed, b[0])
	}
	last := Peer(0)
	for b = b[1:]; len(b) > 0; {
		p, n, err := parsePeer(b)
		if err != nil {
			return err
		}
		if uint8(p.number%Shards) != s.N || p.number < last || m.peers[p.number] != nil {
			return fmt.Errorf("%w: peer %d in %s", ErrMalformed, p.number, s.Name())
		}
		last, b = p.number, b[n:]
		m.peers[p.number] = p
		m.seat(p)
		m.count(p, 1)
	}
	return nil
}

func parsePeer(b []byte) (*peer, int, error) {
	if len(b) < peerSize {
		return nil, 0, fmt.Errorf("%w: peer of %d bytes", ErrMalformed, len(b))
	}
	p := &peer{number: Peer(binary.BigEndian.Uint64(b)), account: Account(binary.BigEndian.Uint64(b[8:])), prefix: Prefix(binary.BigEndian.Uint64(b[16:]))}
	var values [4]float32
	for i := range values {
		if values[i] = math.Float32frombits(binary.BigEndian.Uint32(b[24+4*i:])); !(values[i] >= 0 && values[i] <= maxScore) {
			return nil, 0, fmt.Errorf("%w: score %v", ErrMalformed, values[i])
		}
	}
	p.score, p.peak = [scores]float32(values[:3]), values[3]
	p.tasks, p.checks, p.lost = binary.BigEndian.Uint32(b[40:]), binary.BigEndian.Uint32(b[44:]), binary.BigEndian.Uint32(b[48:])
	flags, domains, charged := b[53], int(b[55]), int(b[56])
	p.standing, p.suspect, p.pardons = Standing(b[52]), flags&suspectFlag != 0, b[54]
	p.looked = flags&lookedFlag != 0
	size := peerSize + 8*(domains+charged)
	if p.standing == Unknown || p.standing > Banned || flags > suspectFlag|lookedFlag || domains > domainsKept || charged > tasksKept || len(b) < size {
		return nil, 0, fmt.Errorf("%w: peer of standing %d with tables of %d and %d", ErrMalformed, b[52], domains, charged)
	}
	for i, e := 0, b[peerSize:]; i < domains+charged; i, e = i+1, e[8:] {
		entry := sum{key: binary.BigEndian.Uint32(e), by: math.Float32frombits(binary.BigEndian.Uint32(e[4:]))}
		if !(entry.by > 0 && entry.by <= maxScore) {
			return nil, 0, fmt.Errorf("%w: entry of %v", ErrMalformed, entry.by)
		}
		if i < domains {
			p.domains[i] = entry
		} else {
			p.charged[i-domains] = entry
		}
	}
	return p, size, nil
}
