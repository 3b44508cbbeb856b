package member

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member/memberpb"
)

var t0 = time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)

func seed(n byte) [32]byte { return [32]byte{n} }

func pub(s [32]byte) [32]byte {
	return [32]byte(ed25519.NewKeyFromSeed(s[:]).Public().(ed25519.PublicKey))
}

// authority makes a working key of a network, valid for a day around t0 unless change says otherwise.
func authority(t testing.TB, root Root, work byte, change func(*Delegation)) *Authority {
	t.Helper()
	d := Delegation{Key: pub(seed(work)), Roles: AllRoles, NotBefore: t0.Add(-24 * time.Hour), NotAfter: t0.Add(24 * time.Hour), Serial: uint64(work)}
	if change != nil {
		change(&d)
	}
	sealed, err := root.Delegate(d)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAuthority(seed(work), root.ID(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func header() channel.Header {
	return channel.Header{Channel: 7, Gen: 3, Host: "https://example.org", Pages: 20, Budget: 40, Issued: t0, Latest: t0.Add(10 * time.Minute),
		Gap: time.Second, Archive: "12D3KooWArchive", BodySHA256: seed(9), BodyBytes: 400}
}

func signed(t testing.TB, a *Authority, h channel.Header) channel.Signed {
	t.Helper()
	s, err := a.SignHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t testing.TB, a *Authority, d Document) []byte {
	t.Helper()
	if d.Issued.IsZero() {
		d.Issued = t0
	}
	d.NotAfter = d.Issued.Add(DocumentLife)
	b, err := a.SignDocument(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVerifyTask(t *testing.T) {
	root, other := NewRoot(seed(1)), NewRoot(seed(2))
	good := authority(t, root, 10, nil)
	stranger := authority(t, other, 11, nil)
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	tests := map[string]struct {
		task func() channel.Signed
		now  time.Time
		want error
	}{
		"good":                {func() channel.Signed { return signed(t, good, header()) }, t0, nil},
		"at its latest start": {func() channel.Signed { return signed(t, good, header()) }, t0.Add(10 * time.Minute), nil},
		"late":                {func() channel.Signed { return signed(t, good, header()) }, t0.Add(10*time.Minute + time.Millisecond), ErrLate},
		"clock 4 min behind":  {func() channel.Signed { return signed(t, good, header()) }, t0.Add(-4 * time.Minute), nil},
		"from the future":     {func() channel.Signed { return signed(t, good, header()) }, t0.Add(-6 * time.Minute), ErrNotYet},
		"no signature":        {func() channel.Signed { s := signed(t, good, header()); s.Sig = nil; return s }, t0, ErrUnsigned},
		"no delegation":       {func() channel.Signed { s := signed(t, good, header()); s.Delegation = nil; return s }, t0, ErrUnsigned},
		"signature altered":   {func() channel.Signed { s := signed(t, good, header()); s.Sig = flip(s.Sig, 5); return s }, t0, ErrAltered},
		"signature of two": {func() channel.Signed {
			s := signed(t, good, header())
			s.Sig = append(bytes.Clone(s.Sig), s.Sig...)
			return s
		}, t0, ErrAltered},
		"host altered":     {func() channel.Signed { return altered(t, good) }, t0, ErrAltered},
		"other network":    {func() channel.Signed { return signed(t, stranger, header()) }, t0, ErrOtherNetwork},
		"other delegation": {func() channel.Signed { s := signed(t, good, header()); s.Delegation = stranger.Sealed(); return s }, t0, ErrOtherNetwork},
		"delegation altered": {func() channel.Signed {
			s := signed(t, good, header())
			s.Delegation = flip(s.Delegation, len(s.Delegation)-1)
			return s
		}, t0, ErrDelegation},
		"delegation is rubbish": {func() channel.Signed { s := signed(t, good, header()); s.Delegation = []byte("rubbish"); return s }, t0, ErrDelegation},
		"delegation of another key": {func() channel.Signed {
			s := signed(t, good, header())
			s.Delegation = authority(t, root, 12, nil).Sealed()
			return s
		}, t0, ErrAltered},
		"delegation expired": {func() channel.Signed {
			return signed(t, authority(t, root, 10, func(d *Delegation) { d.NotAfter = t0.Add(-6 * time.Minute) }), header())
		}, t0, ErrExpired},
		"delegation expired within skew": {func() channel.Signed {
			return signed(t, authority(t, root, 10, func(d *Delegation) { d.NotAfter = t0.Add(-4 * time.Minute) }), header())
		}, t0, nil},
		"delegation not yet": {func() channel.Signed {
			return signed(t, authority(t, root, 10, func(d *Delegation) { d.NotBefore = t0.Add(6 * time.Minute) }), header())
		}, t0, ErrNotYet},
		"delegation without that role": {func() channel.Signed {
			return signed(t, authority(t, root, 10, func(d *Delegation) { d.Roles = SignCertificates | SignDocuments }), header())
		}, t0, ErrRole},
		"self-made delegation": {func() channel.Signed {
			// A member invents a delegation: right network, signed by itself.
			d := Delegation{Network: root.ID(), Key: pub(seed(66)), Roles: AllRoles, NotBefore: t0, NotAfter: t0.Add(time.Hour), Serial: 99}
			key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{66}, 32))
			sealed, err := seal(key, contextDelegation, d.marshal(), nil, MaxDelegation)
			if err != nil {
				t.Fatal(err)
			}
			s := signed(t, good, header())
			s.Delegation = sealed
			return s
		}, t0, ErrDelegation},
		"header is rubbish": {func() channel.Signed { s := signed(t, good, header()); s.Raw = []byte{0xff, 0xff}; return s }, t0, ErrMalformed},
		"too large": {func() channel.Signed {
			s := signed(t, good, header())
			s.Raw = make([]byte, channel.MaxHeader)
			return s
		}, t0, ErrTooLarge},
		"certificate as task": {func() channel.Signed {
			s := signed(t, good, header())
			s.Sig = sign(good.key, contextCertificate, s.Raw)
			return s
		}, t0, ErrAltered},
	}
	warm := NewVerifier(root.ID())
	if _, err := warm.VerifyTask(t0, signed(t, good, header())); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := tt.task()
			for what, v := range map[string]*Verifier{"cold": NewVerifier(root.ID()), "warm": warm} {
				h, err := v.VerifyTask(tt.now, s)
				if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("%s: got %v, want %v", what, err, tt.want)
				}
				if tt.want == nil && (h.Channel != 7 || h.Network != root.ID()) {
					t.Errorf("%s: header %+v", what, h)
				}
				if tt.want != nil && h.Channel != 0 {
					t.Errorf("%s: refused, yet returned a header", what)
				}
			}
		})
	}
}

// altered is a task whose host was changed on the way.
func altered(t *testing.T, a *Authority) channel.Signed {
	s := signed(t, a, header())
	raw := bytes.Replace(s.Raw, []byte("example.org"), []byte("examine.org"), 1)
	if bytes.Equal(raw, s.Raw) {
		t.Fatal("the header does not hold its host as text")
	}
	s.Raw = raw
	return s
}

func TestVerifyCertificate(t *testing.T) {
	root := NewRoot(seed(1))
	good := authority(t, root, 10, nil)
	c := Certificate{Peer: "12D3KooWPeer", Account: "ada", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}
	sealed, err := good.Certify(c)
	if err != nil {
		t.Fatal(err)
	}
	v := NewVerifier(root.ID())
	got, err := v.VerifyCertificate(t0, sealed)
	c.Network = root.ID()
	if err != nil || got != c {
		t.Fatalf("got %+v, %v", got, err)
	}
	for name, tt := range map[string]struct {
		sealed []byte
		now    time.Time
		want   error
	}{
		"within skew after":   {sealed, t0.Add(time.Hour + 4*time.Minute), nil},
		"expired":             {sealed, t0.Add(time.Hour + 6*time.Minute), ErrExpired},
		"not yet":             {sealed, t0.Add(-6 * time.Minute), ErrNotYet},
		"altered":             {bytes.Replace(sealed, []byte("ada"), []byte("eve"), 1), t0, ErrAltered},
		"unsigned":            {encode(&memberpb.Sealed{Raw: c.marshal()}), t0, ErrUnsigned},
		"other network":       {must(authority(t, NewRoot(seed(2)), 10, nil).Certify(c)), t0, ErrOtherNetwork},
		"signer may not":      {must(authority(t, root, 10, func(d *Delegation) { d.Roles = SignTasks }).Certify(c)), t0, ErrRole},
		"a document":          {document(t, good, Document{}), t0, ErrMalformed},
		"empty":               {nil, t0, ErrMalformed},
		"beyond its limit":    {make([]byte, MaxCertificate+1), t0, ErrTooLarge},
		"of a task signature": {reseal(good, contextTask, c.marshal()), t0, ErrAltered},
	} {
		if _, err := v.VerifyCertificate(tt.now, tt.sealed); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	for name, bad := range map[string]Certificate{
		"no peer":       {Role: Peer, NotBefore: t0, NotAfter: t0.Add(1)},
		"no role":       {Peer: "p", NotBefore: t0, NotAfter: t0.Add(time.Hour)},
		"ends at start": {Peer: "p", Role: Peer, NotBefore: t0, NotAfter: t0},
		"long account":  {Peer: "p", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour), Account: strings.Repeat("a", MaxAccount+1)},
		"odd account":   {Peer: "p", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour), Account: "a\nb"},
	} {
		if _, err := good.Certify(bad); err == nil {
			t.Errorf("signed a certificate with %s", name)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func reseal(a *Authority, context string, raw []byte) []byte {
	return must(seal(a.key, context, raw, a.Sealed(), MaxDocument))
}

func TestLearnDocument(t *testing.T) {
	root := NewRoot(seed(1))
	old, next := authority(t, root, 10, nil), authority(t, root, 11, nil)
	v := NewVerifier(root.ID())
	first := Document{Name: "pond", Contact: "https://example.org/bot", ClaimWait: time.Minute, Lease: 10 * time.Minute, MinProtocol: 1,
		Managers: []Server{{"12D3KooWManager", []string{"/ip4/127.0.0.1/tcp/7785"}}}, Archives: []Server{{"12D3KooWArchive", nil}},
		Delegations: [][]byte{old.Sealed()}, MinSerial: 10}
	d, changed, err := v.Learn(t0, document(t, old, first))
	if err != nil || !changed || d.Name != "pond" || d.Lease != 10*time.Minute || len(d.Managers) != 1 || !d.Managers[0].Equal(first.Managers[0]) {
		t.Fatalf("%+v, %v, %v", d, changed, err)
	}
	task := signed(t, old, header())
	cert := must(old.Certify(Certificate{Peer: "p", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}))
	// A key that no document has named yet is good by the root's word alone.
	if _, err := v.VerifyTask(t0, signed(t, next, header())); err != nil {
		t.Fatalf("new key: %v", err)
	}
	if _, changed, err := v.Learn(t0, document(t, old, Document{Issued: t0.Add(-time.Minute)})); err != nil || changed {
		t.Fatalf("older document: changed %v, %v", changed, err)
	}
	// Rotation, old key still good for a while.
	if _, changed, err := v.Learn(t0, document(t, next, Document{MinSerial: 10})); err != nil || !changed {
		t.Fatalf("document of the next key: changed %v, %v", changed, err)
	}
	if _, err := v.VerifyTask(t0, task); err != nil {
		t.Fatalf("old key while both are in use: %v", err)
	}
	// Now it is outdated.
	if _, changed, err := v.Learn(t0, document(t, next, Document{MinSerial: 11, Issued: t0.Add(time.Second)})); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if _, err := v.VerifyTask(t0, task); !errors.Is(err, ErrOutdated) || Reason(err) != "outdated" {
		t.Fatalf("old key's task: %v", err)
	}
	if _, err := v.VerifyCertificate(t0, cert); !errors.Is(err, ErrOutdated) {
		t.Fatalf("old key's certificate: %v", err)
	}
	if _, _, err := v.Learn(t0, document(t, old, Document{Issued: t0.Add(time.Minute)})); !errors.Is(err, ErrOutdated) {
		t.Fatalf("old key's document: %v", err)
	}
	if d, ok := v.Document(); !ok || d.MinSerial != 11 || len(v.SealedDocument()) == 0 {
		t.Fatalf("kept %+v", d)
	}

	// A restart long after remembers which keys are outdated.
	back := NewVerifier(root.ID())
	if d, err := back.Recall(v.SealedDocument()); err != nil || d.MinSerial != 11 {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := back.VerifyTask(t0, task); !errors.Is(err, ErrOutdated) {
		t.Fatalf("old key's task after a restart: %v", err)
	}
	if _, err := back.Recall(bytes.Replace(document(t, next, Document{Name: "pond"}), []byte("pond"), []byte("pool"), 1)); !errors.Is(err, ErrAltered) {
		t.Fatalf("recalled an altered document: %v", err)
	}

	fresh := NewVerifier(root.ID())
	for name, tt := range map[string]struct {
		sealed []byte
		now    time.Time
		want   error
	}{
		"outdates beyond its own serial": {document(t, old, Document{MinSerial: 11}), t0, ErrRole},
		"expired":                        {document(t, authority(t, root, 10, func(d *Delegation) { d.NotAfter = t0.Add(9 * 24 * time.Hour) }), Document{}), t0.Add(DocumentLife + time.Hour), ErrExpired},
		"from the future":                {document(t, old, Document{Issued: t0.Add(time.Hour)}), t0, ErrNotYet},
		"other network":                  {document(t, authority(t, NewRoot(seed(2)), 10, nil), Document{}), t0, ErrOtherNetwork},
		"unsigned":                       {encode(&memberpb.Sealed{Raw: Document{Network: root.ID(), Issued: t0, NotAfter: t0.Add(time.Hour)}.marshal()}), t0, ErrUnsigned},
		"altered":                        {bytes.Replace(document(t, old, Document{Name: "pond"}), []byte("pond"), []byte("pool"), 1), t0, ErrAltered},
		"signer may not":                 {document(t, authority(t, root, 10, func(d *Delegation) { d.Roles = SignTasks }), Document{}), t0, ErrRole},
	} {
		if _, _, err := fresh.Learn(tt.now, tt.sealed); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

func TestTaskCacheIsBoundedAndExact(t *testing.T) {
	root := NewRoot(seed(1))
	a := authority(t, root, 10, nil)
	v := NewVerifier(root.ID())
	h := header()
	for i := range 3 * maxTasks {
		h.Gen = channel.Gen(i + 1)
		if _, err := v.VerifyTask(t0, signed(t, a, h)); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.tasks) > maxTasks {
		t.Fatalf("remembers %d tasks", len(v.tasks))
	}
	s := signed(t, a, h)
	for n := range s.Sig {
		bad := channel.Signed{Raw: s.Raw, Sig: bytes.Clone(s.Sig), Delegation: s.Delegation}
		bad.Sig[n] ^= 0x40
		if _, err := v.VerifyTask(t0, bad); !errors.Is(err, ErrAltered) {
			t.Fatalf("byte %d of the signature: %v", n, err)
		}
	}
}

// A verifier does not check the signatures of its own process again, and still refuses those that are altered or that the signer may not make.
func TestOwnSignaturesAreKnown(t *testing.T) {
	root := NewRoot(seed(1))
	v := NewVerifier(root.ID())
	a := authority(t, root, 10, nil)
	s, err := v.Signing(a)(header())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := v.tasks[taskID(a.Delegation().Key, s)]; !known {
		t.Fatal("the signature would be checked again")
	}
	if _, err := v.VerifyTask(t0, s); err != nil {
		t.Fatal(err)
	}
	if h, err := NewVerifier(root.ID()).VerifyTask(t0, s); err != nil || h.Gen != header().Gen {
		t.Fatalf("to another verifier it is %+v, %v", h, err)
	}
	altered := s
	altered.Raw = bytes.Clone(s.Raw)
	altered.Raw[len(altered.Raw)-1] ^= 1
	if _, err := v.VerifyTask(t0, altered); err == nil {
		t.Fatal("an altered task passed")
	}
	may := authority(t, root, 10, func(d *Delegation) { d.Roles = SignDocuments })
	if s, err = v.Signing(may)(header()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.VerifyTask(t0, s); !errors.Is(err, ErrRole) {
		t.Fatalf("a key that may not sign tasks: %v", err)
	}
}

func TestEveryAlteredByteIsRefused(t *testing.T) {
	root := NewRoot(seed(1))
	sealed := must(authority(t, root, 10, nil).Certify(Certificate{Peer: "12D3KooWPeer", Account: "ada", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}))
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range sealed {
		bad := bytes.Clone(sealed)
		bad[n] ^= byte(1 + rng.IntN(255))
		c, err := NewVerifier(root.ID()).VerifyCertificate(t0, bad)
		if err == nil {
			t.Errorf("byte %d altered, accepted as %+v", n, c)
		}
	}
}

func TestTooLargeToSign(t *testing.T) {
	a := authority(t, NewRoot(seed(1)), 10, nil)
	h := header()
	h.Host = "https://" + strings.Repeat("a", channel.MaxHeader)
	if _, err := a.SignHeader(h); !errors.Is(err, ErrTooLarge) {
		t.Errorf("header: %v", err)
	}
	var servers []Server
	for range MaxServers {
		servers = append(servers, Server{Peer: "p", Addrs: []string{"/" + strings.Repeat("a", MaxAddr-1), "/" + strings.Repeat("b", MaxAddr-1)}})
	}
	if _, err := a.SignDocument(Document{Managers: servers, Issued: t0, NotAfter: t0.Add(time.Hour)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("document: %v", err)
	}
	s := signed(t, a, header())
	if n := proto.Size(&memberpb.Sealed{Raw: s.Raw, Sig: s.Sig, Delegation: s.Delegation}); n > channel.MaxHeader {
		t.Errorf("a signed task takes %d bytes", n)
	}
}
