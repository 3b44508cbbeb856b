package p2p

import (
	"bytes"
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
	maxSig     = 96 // an Ed25519 key makes 64 bytes, the other kinds that an id can name no more than 72
	maxSealed  = maxRecord + member.MaxPass + maxSig + 32
	maxGossip  = (1 + overlay.MaxGossip) * maxSealed
	maxMessage = overlay.MaxNear * maxSealed
	maxHandoff = overlay.MaxHandoff * (channel.MaxHeader + 16)
)

// Why a record or a message from outside is refused, beside the reasons of package member.
var (
	errRecord   = errors.New("p2p: record refused")
	errMessage  = errors.New("p2p: message refused")
	errCoord    = errors.New("p2p: impossible coordinate")
	errReplayed = errors.New("p2p: a record of long before the newest one")
	errMany     = errors.New("p2p: more records than there may be")
	errPass     = errors.New("p2p: a record of a peer that is not known to be a member")
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
	case errors.Is(err, errMany):
		why = "too_many_records"
	case errors.Is(err, errHandovers):
		why = "handover"
	case errors.Is(err, errPass):
		why = "pass_" + why
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
	key         crypto.PrivKey
	network     member.NetworkID
	certificate func() []byte    // of the node's own; nil: there is none
	verifier    *member.Verifier // of others' passes

	mu      sync.Mutex
	checked map[overlay.ID]checked // newest verified one by id
}

// checked is a record whose signature was checked, both as they came, and the pass that came with it; zero: none.
type checked struct {
	rec  overlay.PeerRecord
	raw  []byte
	sig  []byte
	pass []byte
	says member.Pass
}

// known is the newest verified record of a peer.
func (s *sealer) known(id overlay.ID) checked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checked[id]
}

func (s *sealer) remember(c checked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.checked) >= maxChecked {
		clear(s.checked)
	}
	if old, ok := s.checked[c.rec.ID]; !ok || c.rec.Seq >= old.rec.Seq {
		s.checked[c.rec.ID] = c
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
	out := &pb.Sealed{Record: raw, Sig: sig}
	if s.certificate != nil {
		if cert := s.certificate(); cert != nil {
			if out.Pass, err = member.PassOf(cert); err != nil {
				return fmt.Errorf("p2p: record: %w", err)
			}
		}
	}
	r.Sealed, err = proto.Marshal(out)
	return err
}

// open checks a sealed record and reads it, with its peer's account if there is a pass. One that was checked before, with the same
// signature, costs nothing. The signature is told on as it came, so that it counts only if it is good.
func (s *sealer) open(now time.Time, m *pb.Sealed) (overlay.PeerRecord, error) {
	if m == nil || len(m.Sig) == 0 {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, member.ErrUnsigned)
	}
	if len(m.Record) > maxRecord || len(m.Sig) > maxSig {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w: %d bytes, with a signature of %d", errRecord, member.ErrTooLarge, len(m.Record), len(m.Sig))
	}
	var p pb.Record
	if err := proto.Unmarshal(m.Record, &p); err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if [32]byte(fill(p.Network)) != s.network {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, member.ErrOtherNetwork)
	}
	known := s.known(overlay.ID(p.Id))
	c := checked{rec: known.rec, raw: m.Record, sig: m.Sig}
	same := bytes.Equal(known.raw, m.Record) && bytes.Equal(known.sig, m.Sig)
	if !same {
		var err error
		if c.rec, err = read(&p, m); err != nil {
			return overlay.PeerRecord{}, err
		}
	}
	if err := s.check(now, &c, &known, m.Pass); err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errPass, err)
	}
	if same && bytes.Equal(known.pass, m.Pass) {
		return known.rec, nil
	}
	var err error
	if c.rec.Sealed, err = proto.Marshal(&pb.Sealed{Record: m.Record, Sig: m.Sig, Pass: m.Pass}); err != nil {
		return overlay.PeerRecord{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	c.rec.Account = c.says.Account
	if !notYet(now, &c.rec) { // no time of a clock that is ahead makes its peer's next record look like a replayed one
		s.remember(c)
	}
	return c.rec, nil
}

// read checks a record's signature, and reads what it says.
func read(p *pb.Record, m *pb.Sealed) (overlay.PeerRecord, error) {
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
	if r.Issued.IsZero() { // it would stand for an address of which nothing was heard yet, which has no age
		return r, fmt.Errorf("%w: %w: it has no time", errRecord, member.ErrExpired)
	}
	return r, r.Check()
}

// check takes the pass that came with a record, if there is one. Its signature is checked when it is another than the last.
func (s *sealer) check(now time.Time, c, known *checked, pass []byte) (err error) {
	switch {
	case len(pass) == 0:
		return nil
	case s.verifier == nil:
		return member.ErrDelegation
	case bytes.Equal(pass, known.pass):
		c.pass, c.says = known.pass, known.says
		return s.verifier.StillGood(now, c.says)
	}
	c.pass = pass
	if c.says, err = s.verifier.VerifyPass(now, pass); err == nil && c.says.Peer != string(c.rec.ID) {
		err = fmt.Errorf("%w: of another peer", member.ErrAltered)
	}
	return err
}

func fill(b []byte) []byte {
	var out [32]byte
	copy(out[:], b)
	return out[:]
}

func small(v uint32) uint8 { return uint8(min(v, 255)) }

// sealed returns the wire form of records that this node was told. It leaves out those whose membership a receiver
// could not check.
func sealed(recs []*overlay.PeerRecord) []*pb.Sealed {
	var out []*pb.Sealed
	for _, r := range recs {
		if m := unsealed(*r); m != nil && len(m.Pass) > 0 {
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

// openOwn reads the record that a peer sends of itself at now. Its connection has shown that it is a member.
func (s *sealer) openOwn(now time.Time, m *pb.Sealed, from overlay.ID) (overlay.PeerRecord, error) {
	known := s.known(from).rec
	r, err := s.open(now, m)
	switch {
	case err != nil:
		return r, err
	case r.ID != from:
		return r, fmt.Errorf("%w: %w: of another peer", errRecord, member.ErrAltered)
	case notYet(now, &r):
		return r, fmt.Errorf("%w: %w: made at %s, it is %s", errRecord, member.ErrNotYet, r.Issued.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case r.Seq < known.Seq && known.Issued.Sub(r.Issued) > replayed:
		return r, errReplayed
	}
	return r, nil
}

// notYet reports whether a record is dated further in the future than clocks may differ.
func notYet(now time.Time, r *overlay.PeerRecord) bool { return r.Issued.After(now.Add(member.Skew)) }

// openAll reads records of third members, leaving out and counting what is refused.
func (s *sealer) openAll(now time.Time, in []*pb.Sealed, most int, refused func(error)) []*overlay.PeerRecord {
	var out []*overlay.PeerRecord
	if len(in) > most {
		refused(fmt.Errorf("%w: %d records, at most %d", errMany, len(in), most))
		in = in[:most]
	}
	for _, m := range in {
		r, err := s.open(now, m)
		if err == nil && len(m.Pass) == 0 {
			err = fmt.Errorf("%w: %w", errPass, member.ErrUnsigned)
		}
		if err != nil {
			refused(err)
			continue
		}
		out = append(out, &r)
	}
	return out
}
