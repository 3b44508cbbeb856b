package carry

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/internal/release"
	pb "shoal/internal/release/carry/carrypb"
	"shoal/internal/release/trusted"
	"shoal/internal/wire"
)

// manager is both ends without a wire: what is called is handled, within the limits that Serve names.
type manager struct {
	dir      string
	told     []release.Report
	offer    Offer
	handlers map[protocol.ID]wire.Handler
	most     map[protocol.ID]int
	answer   []byte // in place of the handler's own; nil: none
	calls    int
	cut      int // the call that fails
}

func (m *manager) Dir() string { return m.dir }

func (m *manager) Told(_ wire.Member, r release.Report) Offer {
	m.told = append(m.told, r)
	return m.offer
}

func (m *manager) Handle(p protocol.ID, most int, _ time.Duration, h wire.Handler) {
	m.handlers[p], m.most[p] = h, most
}

func (m *manager) Call(ctx context.Context, _ peer.ID, p protocol.ID, req []byte, maxOut int) ([]byte, error) {
	if m.calls++; m.calls == m.cut {
		return nil, wire.ErrUnreachable
	}
	if len(req) > m.most[p] {
		return nil, wire.Errorf(wire.TooLarge, "a request of %d bytes", len(req))
	}
	if m.answer != nil {
		return m.answer, nil
	}
	b, err := m.handlers[p](ctx, wire.Member{}, req)
	if len(b) > maxOut {
		return nil, wire.Errorf(wire.TooLarge, "an answer of %d bytes", len(b))
	}
	return b, err
}

func newManager(t *testing.T) (*manager, Client) {
	t.Helper()
	m := &manager{dir: t.TempDir(), handlers: map[protocol.ID]wire.Handler{}, most: map[protocol.ID]int{}}
	Serve(m, m)
	return m, Client{Node: m}
}

// TestTell carries a report that is as long as any may be, and the offer back.
func TestTell(t *testing.T) {
	m, c := newManager(t)
	m.offer = Offer{"v1.2.0", 1000}
	r := release.Report{Version: "v1.1.0", System: "linux-amd64", Setting: "auto", Trial: true}
	for range 3 * release.MaxFalls {
		r.Falls = append(r.Falls, release.Fall{Version: strings.Repeat("v", release.MaxVersion), Why: strings.Repeat("ä", release.MaxWhy)})
	}
	got, err := c.Tell(t.Context(), r)
	if err != nil || got != m.offer {
		t.Fatal(got, err)
	}
	if x := m.told[0]; x.Version != r.Version || x.System != r.System || x.Setting != r.Setting || !x.Trial || len(x.Falls) != release.MaxFalls || len(x.Falls[0].Why) > release.MaxWhy {
		t.Errorf("%+v", x)
	}
	for what, o := range map[string]*pb.Offer{"too large a share": {Version: "v1.2.0", Share: release.Whole + 1}, "no version": {Version: "../../x", Share: 1}, "a long one": {Version: strings.Repeat("1", 200)}} {
		if m.answer, err = proto.Marshal(o); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Tell(t.Context(), r); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v %v", what, got, err)
		}
	}
}

// TestFiles serves what belongs to releases, whole and in parts, and nothing else.
func TestFiles(t *testing.T) {
	m, c := newManager(t)
	program := bytes.Repeat([]byte("0123456789abcde\n"), (2*MaxPart+100)/16)
	name := "shoal-peer/v1.2.0-rc.1/linux-amd64"
	for file, b := range map[string][]byte{"timestamp.json": []byte("{}"), "online.key": []byte("secret"), "2.targets.json": bytes.Repeat([]byte("x"), trusted.MaxMetadata+1), name: program, "shoal-peer/v1.2.0-rc.1/notes": nil} {
		at := filepath.Join(m.dir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := c.File(t.Context(), "timestamp.json", trusted.MaxMetadata); err != nil || string(b) != "{}" {
		t.Error(string(b), err)
	}
	if b, err := c.File(t.Context(), "2.targets.json", trusted.MaxMetadata); !errors.Is(err, ErrMalformed) {
		t.Error(len(b), err)
	}
	for _, bad := range []string{"", "online.key", "../releases.json", "shoal-peer/v1/../../online.key", "shoal-peer/../online.key", "shoal-peer/v1.2.0-rc.1/notes", "1.root.json", "./timestamp.json", "shoal-peer", strings.Repeat("1", 200) + ".root.json"} {
		if b, err := c.File(t.Context(), bad, trusted.MaxMetadata); err == nil {
			t.Errorf("%q is served: %q", bad, b)
		}
	}
	var got []byte
	put := func(b []byte) error { got = append(got, b...); return nil }
	m.calls, m.cut = 0, 2
	if err := c.Download(t.Context(), name, 0, int64(len(program)), put); !errors.Is(err, wire.ErrUnreachable) || len(got) != MaxPart {
		t.Fatal("cut:", len(got), err)
	}
	if err := c.Download(t.Context(), name, int64(len(got)), int64(len(program)), put); err != nil || !bytes.Equal(got, program) {
		t.Error("resumed:", len(got), err)
	}
	if m.calls != 4 {
		t.Errorf("%d questions for three parts, one of which was cut", m.calls)
	}
	if err := c.Download(t.Context(), name, 0, int64(len(program))-1, put); !errors.Is(err, trusted.ErrForged) {
		t.Error("another length than was signed:", err)
	}
	for what, p := range map[string]*pb.Part{"no progress": {Size: 100}, "more than there is": {Bytes: make([]byte, 10), Size: 5}, "a huge file": {Bytes: []byte{1}, Size: 1 << 40}} {
		var err error
		if m.answer, err = proto.Marshal(p); err != nil {
			t.Fatal(err)
		}
		if err := c.Download(t.Context(), name, 0, 100, put); !errors.Is(err, ErrMalformed) && !errors.Is(err, trusted.ErrForged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	full := errors.New("full")
	m.answer = nil
	if err := c.Download(t.Context(), name, 0, int64(len(program)), func([]byte) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}
