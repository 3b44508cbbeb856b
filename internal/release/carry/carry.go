// Package carry is how releases travel: what peers tell a manager of their programs and what it offers them, and the parts of files that it serves.
// It has both ends.
//
// It believes nothing and decides nothing: what a file is worth is package trusted's to say, and who gets which version package release's.
//
// Invariants: a file is asked for by a name that can lead out of no folder; every part is bounded; a download goes on where it stopped.
package carry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/internal/release"
	pb "shoal/internal/release/carry/carrypb"
	"shoal/internal/release/trusted"
	"shoal/internal/wire"
)

// The protocols.
const (
	ProtoUpdate  protocol.ID = "/shoal/update/1"
	ProtoProgram protocol.ID = "/shoal/program/1"
)

// Limits of the messages, and how long an exchange may take.
const (
	maxTold  = 2 << 10
	maxOffer = 256
	maxAsk   = 256
	MaxPart  = 256 << 10 // bytes of a file in one answer
	maxAns   = MaxPart + 256

	toldTimeout = 20 * time.Second
	partTimeout = 5 * time.Minute // over a link that a volunteer has made slow
)

// ErrMalformed is wrapped where a message cannot be read.
var ErrMalformed = errors.New("carry: malformed")

// Offer is what a manager offers all of its peers.
type Offer struct {
	Version string // empty: nothing
	Share   int    // of release.Whole
}

// Source is what Serve needs of a manager.
type Source interface {
	// Told takes in what a peer tells, and returns the offer.
	Told(from wire.Member, r release.Report) Offer
	// Dir is the folder whose files are served.
	Dir() string
}

// served are the names that are served: metadata, and programs. A key is none of them.
var served = regexp.MustCompile(`^(anchor|timestamp\.json|[0-9]{1,19}\.(root|snapshot|targets)\.json|shoal-peer/v[0-9a-z.-]{1,32}/[a-z0-9]{1,16}-[a-z0-9]{1,16})$`)

// Node is what Serve needs of the wire; *wire.Node is one.
type Node interface {
	Handle(proto protocol.ID, maxIn int, timeout time.Duration, handle wire.Handler)
}

// Serve answers members.
func Serve(n Node, s Source) {
	n.Handle(ProtoUpdate, maxTold, toldTimeout, func(_ context.Context, from wire.Member, req []byte) ([]byte, error) {
		var m pb.Told
		if err := proto.Unmarshal(req, &m); err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		r := release.Report{Version: m.Version, System: m.System, Setting: m.Setting, Trial: m.Trial}
		for _, f := range m.Falls {
			r.Falls = append(r.Falls, release.Fall{Version: f.GetVersion(), Why: f.GetWhy()})
		}
		o := s.Told(from, r)
		return proto.Marshal(&pb.Offer{Version: o.Version, Share: uint32(o.Share)})
	})
	n.Handle(ProtoProgram, maxAsk, partTimeout, func(_ context.Context, _ wire.Member, req []byte) ([]byte, error) {
		var m pb.Ask
		if err := proto.Unmarshal(req, &m); err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		part, err := read(s.Dir(), m.Name, m.From)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(part)
	})
}

// read returns a part of a served file.
func read(dir, name string, from uint64) (*pb.Part, error) {
	if !served.MatchString(name) || strings.Contains(name, "..") {
		return nil, wire.Errorf(wire.NotFound, "no such file of a release")
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wire.Errorf(wire.NotFound, "no such file of a release")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := uint64(info.Size())
	if from > size {
		return nil, wire.Errorf(wire.Malformed, "byte %d of a file of %d", from, size)
	}
	b := make([]byte, min(MaxPart, size-from))
	if _, err := f.ReadAt(b, int64(from)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &pb.Part{Bytes: b, Size: size}, nil
}

// Caller asks members; *wire.Node is one.
type Caller interface {
	Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error)
}

// Client asks one manager.
type Client struct {
	Node    Caller
	Manager peer.ID
}

// Tell tells the manager of this computer's program, and returns what it offers. Errors of wire pass through: a manager of an older version answers wire.NotFound.
func (c Client) Tell(ctx context.Context, r release.Report) (Offer, error) {
	m := &pb.Told{Version: r.Version, System: r.System, Setting: r.Setting, Trial: r.Trial}
	for _, f := range r.Falls[max(0, len(r.Falls)-release.MaxFalls):] {
		m.Falls = append(m.Falls, &pb.Fall{Version: f.Version, Why: strings.ToValidUTF8(f.Why[:min(len(f.Why), release.MaxWhy)], "")})
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return Offer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, toldTimeout)
	defer cancel()
	if b, err = c.Node.Call(ctx, c.Manager, ProtoUpdate, b, maxOffer); err != nil {
		return Offer{}, err
	}
	var o pb.Offer
	if err := proto.Unmarshal(b, &o); err != nil {
		return Offer{}, fmt.Errorf("%w: offer: %w", ErrMalformed, err)
	}
	if o.Share > release.Whole || len(o.Version) > release.MaxVersion {
		return Offer{}, fmt.Errorf("%w: offer of a share of %d", ErrMalformed, o.Share)
	}
	if _, err := release.Parse(o.Version); o.Version != "" && err != nil {
		return Offer{}, fmt.Errorf("%w: offer: %w", ErrMalformed, err)
	}
	return Offer{o.Version, int(o.Share)}, nil
}

// part fetches a part of a file.
func (c Client) part(ctx context.Context, name string, from int64) (b []byte, size int64, err error) {
	req, err := proto.Marshal(&pb.Ask{Name: name, From: uint64(from)})
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	ans, err := c.Node.Call(ctx, c.Manager, ProtoProgram, req, maxAns)
	if errors.Is(err, wire.NotFound) {
		return nil, 0, fmt.Errorf("%w: %s", trusted.ErrAbsent, name)
	}
	if err != nil {
		return nil, 0, err
	}
	var p pb.Part
	if err := proto.Unmarshal(ans, &p); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if p.Size > trusted.MaxProgram || uint64(from)+uint64(len(p.Bytes)) > p.Size || len(p.Bytes) == 0 && uint64(from) < p.Size {
		return nil, 0, fmt.Errorf("%w: %d bytes from %d of a file of %d", ErrMalformed, len(p.Bytes), from, p.Size)
	}
	return p.Bytes, int64(p.Size), nil
}

// File fetches a small file: it is a trusted.Fetch.
func (c Client) File(ctx context.Context, name string, most int) ([]byte, error) {
	b, size, err := c.part(ctx, name, 0)
	if err == nil && (size > int64(most) || size > int64(len(b))) {
		err = fmt.Errorf("%w: %s has %d bytes, at most %d", ErrMalformed, name, size, min(most, MaxPart))
	}
	return b, err
}

// Download fetches what is missing of a file of known length, of which some bytes are there already. Each part is handed to put before the next is asked for.
func (c Client) Download(ctx context.Context, name string, have, length int64, put func([]byte) error) error {
	for have < length {
		b, size, err := c.part(ctx, name, have)
		if err != nil {
			return err
		}
		if size != length {
			return fmt.Errorf("%w: %s has %d bytes, %d are signed", trusted.ErrForged, name, size, length)
		}
		if err := put(b); err != nil {
			return err
		}
		have += int64(len(b))
	}
	return nil
}
