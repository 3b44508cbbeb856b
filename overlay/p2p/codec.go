package p2p

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// Limits of what is read from others.
const (
	maxRecord  = 2 << 10
	maxMessage = 40 << 10 // a Near of 32 records
	maxHandoff = overlay.MaxHandoff * (channel.MaxHeader + 16)
)

// Why a record or a message from outside is refused, beside the reasons of package member.
var (
	errRecord   = errors.New("p2p: record refused")
	errMessage  = errors.New("p2p: message refused")
	errCoord    = errors.New("p2p: impossible coordinate")
	errReplayed = errors.New("p2p: a record of long before the newest one")
)

// replayed is how much older than the newest that was seen of its peer a peer's own record may be: messages overtake each other.
const replayed = 5 * time.Minute

// reason is the word by which a refusal is counted.
func reason(err error) string {
	why := member.Reason(err)
	switch {
	case errors.Is(err, errCoord):
		why = "coordinate"
	case errors.Is(err, errReplayed):
		why = "replayed"
	case why == "other":
		why = "malformed"
	}
	return why
}

// recordDomain keeps a record's signature from passing for anything else that the key signs.
const recordDomain = "shoal record 1\x00"

// sealer signs the node's own record and checks those of others. It is safe for concurrent use: signatures are checked beside the loop,
// which would else keep offers waiting.
type sealer struct {
	key     crypto.PrivKey
	network member.NetworkID

	mu      sync.Mutex
	checked map[overlay.ID]overlay.PeerRecord // newest verified one by id
}

// known is the newest verified record of a peer.
func (s *sealer) known(id overlay.ID) (overlay.PeerRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.checked[id]
	return r, ok
}

func (s *sealer) remember(r overlay.PeerRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.checked) >= maxChecked {
		clear(s.checked)
	}
	if old, ok := s.checked[r.ID]; !ok || r.Seq > old.Seq {
		s.checked[r.ID] = r
	}
}

// maxChecked bounds the cache of verified records.
const maxChecked = 8192

func (s *sealer) seal(r *overlay.PeerRecord) error {
	m := &pb.Record{Network: s.network[:], Id: string(r.ID), Seq: r.Seq, Coord: channel.CoordPB(r.Coord), Threads: uint32(r.Load.Threads),
		Slots: uint32(r.Load.Slots), Running: uint32(r.Load.Running), Queued: uint32(r.Load.Queued), BacklogMs: uint64(r.Load.Backlog.Milliseconds()),
		Addrs: r.Addrs, IssuedMs: r.Issued.UnixMilli()}
	raw, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("p2p: encode record: %w", err)
	}
	sig, err := s.key.Sign(append([]byte(recordDomain), raw...))
	if err != nil {
		return fmt.Errorf("p2p: sign record: %w", err)
	}
	r.Sealed, err = proto.Marshal(&pb.Sealed{Record: raw, Sig: sig})
	return err
}

// open checks a sealed record and reads it. One that was checked before costs nothing.
func (s *sealer) open(m *pb.Sealed) (overlay.PeerRecord, error) {
	if m == nil || len(m.Sig) == 0 {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, member.ErrUnsigned)
	}
	if len(m.Record) > maxRecord {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w: %d bytes", errRecord, member.ErrTooLarge, len(m.Record))
	}
	var p pb.Record
	if err := proto.Unmarshal(m.Record, &p); err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if [32]byte(fill(p.Network)) != s.network {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, member.ErrOtherNetwork)
	}
	if known, ok := s.known(overlay.ID(p.Id)); ok && known.Seq == p.Seq {
		var k pb.Sealed
		if proto.Unmarshal(known.Sealed, &k) == nil && string(k.Record) == string(m.Record) {
			return known, nil
		}
	}
	id, err := peer.Decode(p.Id)
	if err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: id: %w", errRecord, err)
	}
	key, err := id.ExtractPublicKey()
	if err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: key: %w", errRecord, err)
	}
	if good, err := key.Verify(append([]byte(recordDomain), m.Record...), m.Sig); err != nil || !good {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, member.ErrAltered)
	}
	at, err := channel.ParseCoordPB(p.Coord)
	if err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errCoord, err)
	}
	r := overlay.PeerRecord{ID: overlay.ID(p.Id), Seq: p.Seq, Coord: at, Addrs: p.Addrs, Issued: time.UnixMilli(p.IssuedMs),
		Load: overlay.Load{Threads: small(p.Threads), Slots: small(p.Slots), Running: small(p.Running), Queued: small(p.Queued),
			Backlog: time.Duration(min(p.BacklogMs, uint64(overlay.MaxBacklog/time.Millisecond))) * time.Millisecond}}
	if err := r.Check(); err != nil {
		return overlay.PeerRecord{}, err
	}
	if r.Sealed, err = proto.Marshal(m); err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	s.remember(r)
	return r, nil
}

func fill(b []byte) []byte {
	var out [32]byte
	copy(out[:], b)
	return out[:]
}

func small(v uint32) uint8 { return uint8(min(v, 255)) }

// sealed gives the wire form of records that this node was told, leaving out what nobody signed.
func sealed(recs []*overlay.PeerRecord) []*pb.Sealed {
	var out []*pb.Sealed
	for _, r := range recs {
		if m := unsealed(*r); m != nil {
			out = append(out, m)
		}
	}
	return out
}

func unsealed(r overlay.PeerRecord) *pb.Sealed {
	var m pb.Sealed
	if len(r.Sealed) == 0 || proto.Unmarshal(r.Sealed, &m) != nil {
		return nil
	}
	return &m
}

// openOwn reads the record that a peer sends of itself at now.
func (s *sealer) openOwn(now time.Time, m *pb.Sealed, from overlay.ID) (overlay.PeerRecord, error) {
	known, ok := s.known(from)
	r, err := s.open(m)
	switch {
	case err != nil:
		return r, err
	case r.ID != from:
		return r, fmt.Errorf("%w: %w: of another peer", errRecord, member.ErrAltered)
	case r.Issued.After(now.Add(member.Skew)):
		return r, fmt.Errorf("%w: %w: made at %s, it is %s", errRecord, member.ErrNotYet, r.Issued.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case ok && r.Seq < known.Seq && known.Issued.Sub(r.Issued) > replayed:
		return r, errReplayed
	}
	return r, nil
}

// openAll reads records, leaving out and counting what is refused.
func (s *sealer) openAll(in []*pb.Sealed, most int, refused func(error)) []*overlay.PeerRecord {
	var out []*overlay.PeerRecord
	for _, m := range in[:min(len(in), most)] {
		r, err := s.open(m)
		if err != nil {
			refused(err)
			continue
		}
		out = append(out, &r)
	}
	return out
}
