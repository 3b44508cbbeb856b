package uplink

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire"
	pb "shoal/internal/wire/uplink/uplinkpb"
)

// echo is an archive that answers with what it was asked.
type echo struct {
	claim Claimed
	reply Reply
	err   error
	asked string
	while func() // happens while a claim is answered
}

func (e *echo) Claim(_ context.Context, peer string, s channel.Signed) (Claimed, error) {
	if e.while != nil {
		e.while()
	}
	e.asked = fmt.Sprintf("claim %s %s", peer, s.Raw)
	return e.claim, e.err
}

func (e *echo) Put(_ context.Context, peer string, c channel.Chunk) (Reply, error) {
	e.asked = fmt.Sprintf("put %s %d.%d.%d %d", peer, c.Channel, c.Gen, c.Seq, len(c.Body))
	return e.reply, e.err
}

func (e *echo) Renew(_ context.Context, peer string, s channel.Signed) (Reply, error) {
	e.asked = fmt.Sprintf("renew %s %s", peer, s.Raw)
	return e.reply, e.err
}

func (e *echo) Release(_ context.Context, peer string, id channel.ID, gen channel.Gen) (Reply, error) {
	e.asked = fmt.Sprintf("release %s %d.%d", peer, id, gen)
	return e.reply, e.err
}

// nodes makes a manager, which serves as the archive too, and a member, connected over loopback.
func nodes(t *testing.T) (archive, peer *wire.Node) {
	t.Helper()
	archive, peer, _ = nodesWith(t)
	return archive, peer
}

// nodesWith also gives what makes a document that bans some.
func nodesWith(t *testing.T) (archive, peer *wire.Node, banning func(...string) []byte) {
	t.Helper()
	root := member.NewRoot([32]byte{1})
	node := func(n byte, role member.Role) *wire.Node {
		w, err := wire.New(t.Context(), wire.Config{Key: [32]byte{n}, Role: role, Network: root.ID(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	archive, peer = node(2, member.Manager), node(3, member.Peer)
	seed := [32]byte{9}
	sealed, err := root.Delegate(member.Delegation{
		Key: [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), Roles: member.AllRoles,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), Serial: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	auth, err := member.NewAuthority(seed, root.ID(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := member.NewIssuer(auth, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	banning = func(names ...string) []byte {
		t.Helper()
		d := member.Document{
			Name: "test", MinSerial: uint64(len(names)), Delegations: [][]byte{auth.Sealed()}, Managers: []member.Server{{Peer: archive.ID().String(), Addrs: archive.Addrs()}},
			Issued: time.Now(), NotAfter: time.Now().Add(time.Hour),
		}
		for _, name := range names {
			d.Banned = append(d.Banned, member.BanOf(name))
		}
		doc, err := auth.SignDocument(d)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	if err := archive.SetIssuer(issuer, banning()); err != nil {
		t.Fatal(err)
	}
	if err := peer.Join(t.Context(), member.JoinString{Network: root.ID(), Addrs: archive.Addrs()}, "ada"); err != nil {
		t.Fatal(err)
	}
	return archive, peer, banning
}

// TestBannedWhileClaiming has a member banned between the moment in which its claim was let in and the one in which it is granted. What ends the claims of a
// banned member may have been through by then; so the claim is given back.
func TestBannedWhileClaiming(t *testing.T) {
	archive, peer, banning := nodesWith(t)
	now := time.Now()
	h := channel.Header{Network: member.NewRoot([32]byte{1}).ID(), Channel: 4, Gen: 5, Host: "http://a.example", Issued: now, Latest: now.Add(time.Hour), Archive: archive.ID().String()}
	released := make(chan string, 1)
	e := &ending{echo: echo{claim: Claimed{Reply: Reply{Status: Granted}}}, released: released}
	e.while = func() {
		if err := archive.Learn(banning(peer.ID().String())); err != nil {
			t.Error(err)
		}
	}
	Serve(archive, e)
	if _, err := NewClient(peer, archive.ID()).Claim(t.Context(), channel.Signed{Raw: h.Marshal(), Sig: []byte("s"), Delegation: []byte("d")}); err == nil {
		t.Error("a banned member was told that its claim is granted")
	}
	if got, want := <-released, fmt.Sprintf("%s 4.5", peer.ID()); got != want {
		t.Errorf("%s was given back, want %s", got, want)
	}
}

// ending is an archive that tells what is given back.
type ending struct {
	echo
	released chan<- string
}

func (e *ending) Release(_ context.Context, peer string, id channel.ID, gen channel.Gen) (Reply, error) {
	e.released <- fmt.Sprintf("%s %d.%d", peer, id, gen)
	return Reply{}, nil
}

// TestLoopback asks everything over real connections.
func TestLoopback(t *testing.T) {
	archive, peer := nodes(t)
	e := &echo{}
	Serve(archive, e)
	c := NewClient(peer, archive.ID())
	ctx := t.Context()
	me := peer.ID().String()
	task := channel.Signed{Raw: []byte("header"), Sig: []byte("s"), Delegation: []byte("d")}

	e.claim = Claimed{
		Reply: Reply{Status: Granted, Seq: 7, Head: [32]byte{1}, Left: 30 * time.Minute}, Body: make([]byte, channel.MaxBody),
		Resume: channel.Resume{Seq: 7, Head: [32]byte{1}, Frontier: []channel.Frontier{{URL: "http://example.org/", Depth: 2}}, Done: []uint64{4, 5}},
	}
	got, err := c.Claim(ctx, task)
	if err != nil || got.Reply != e.claim.Reply || len(got.Body) != channel.MaxBody || fmt.Sprint(got.Resume) != fmt.Sprint(e.claim.Resume) {
		t.Errorf("claim: %+v, %v", got.Reply, err)
	}
	if want := "claim " + me + " header"; e.asked != want {
		t.Errorf("asked %q, want %q", e.asked, want)
	}
	e.claim = Claimed{Reply: Reply{Status: Fenced, Highest: 9}, Body: []byte("secret")}
	if got, err := c.Claim(ctx, task); err != nil || got.Status != Fenced || got.Highest != 9 || got.Body != nil {
		t.Errorf("fenced claim: %+v, %v", got, err)
	}
	e.reply = Reply{Status: Stored, Seq: 8, Head: [32]byte{2}, Left: time.Minute}
	big := channel.Chunk{Channel: 1, Gen: 2, Seq: 3, Body: make([]byte, channel.MaxChunk-1024)}
	if got, err := c.Put(ctx, big); err != nil || got != e.reply || e.asked != fmt.Sprintf("put %s 1.2.3 %d", me, len(big.Body)) {
		t.Errorf("put: %+v, %v, asked %q", got, err, e.asked)
	}
	if got, err := c.Renew(ctx, task); err != nil || got != e.reply || e.asked != "renew "+me+" header" {
		t.Errorf("renew: %+v, %v, asked %q", got, err, e.asked)
	}
	if got, err := c.Release(ctx, 4, 5); err != nil || got != e.reply || e.asked != "release "+me+" 4.5" {
		t.Errorf("release: %+v, %v, asked %q", got, err, e.asked)
	}
	now := time.Now()
	if d := c.Time(now).Sub(now); d.Abs() > time.Minute { // the round trip's part, which has no bound
		t.Errorf("the archive on this machine is %v away in time", d)
	}

	e.err = fmt.Errorf("disk /secret/path full: %w", ErrLater)
	if _, err := c.Put(ctx, big); !errors.Is(err, wire.Busy) {
		t.Errorf("full disk: %v", err)
	}
	e.err = fmt.Errorf("no zstd: %w", ErrBad)
	if _, err := c.Put(ctx, big); !errors.Is(err, wire.Malformed) {
		t.Errorf("bad chunk: %v", err)
	}
	if _, err := peer.Call(ctx, archive.ID(), ProtoChunk, []byte("no chunk"), 100); !errors.Is(err, wire.Malformed) {
		t.Errorf("no chunk at all: %v", err)
	}
}

func FuzzReply(f *testing.F) {
	b, err := marshal(&pb.Claimed{Reply: replyPB(Reply{Status: Granted, Left: time.Hour, Head: [32]byte{1}}, time.Unix(1, 0)), Body: []byte("b")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, err := parseClaimed(b)
		if err == nil && (c.Left < 0 || c.Left > maxLeft || c.Status == 0 || c.Status > Waiting) {
			t.Errorf("read %+v", c.Reply)
		}
	})
}
