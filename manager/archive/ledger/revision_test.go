package ledger_test

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc/memory"
)

// TestRevisionOfANewChannel has two programs change the pages of a channel at once that was never crawled, as it has taken them over from another one: what the
// second one has read is old, and it begins anew. The channel can be read afterwards.
func TestRevisionOfANewChannel(t *testing.T) {
	records := memledger.New()
	open := func() *ledger.Ledger {
		l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, &shared{Store: records}, memory.New(memory.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	revise := func(l *ledger.Ledger) *ledger.Revision {
		r, err := l.Revise(7)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	job := func(value string) *ledger.Job {
		return &ledger.Job{Changes: ledger.Fixed([]ledger.Change{{Key: []byte("a page"), Value: []byte(value)}})}
	}
	a, b := open(), open()
	first, second := revise(a), revise(b)
	if err := first.Commit(job("first")); err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(job("second")); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("of what is old by now: %v", err)
	}
	first.Release()
	second.Release()
	second = revise(b)
	if err := second.Commit(job("second")); err != nil {
		t.Errorf("the next try: %v", err)
	}
	second.Release()
	for _, l := range []*ledger.Ledger{b, open()} {
		if err := l.Recall(t.Context(), 7); err != nil {
			t.Errorf("the channel cannot be read: %v", err)
		}
	}
}

// overtaken is a store to which another program writes just before the next commit.
type overtaken struct {
	*shared
	first func()
}

func (o *overtaken) Commit(writes []ledger.Write) ([]error, error) {
	if f := o.first; f != nil {
		o.first = nil
		f()
	}
	return o.shared.Commit(writes)
}

// TestEndsAreSettled has a program end a channel's tasks while another one changes the channel: it does so all the same, and does not leave it to an operator to ask
// again.
func TestEndsAreSettled(t *testing.T) {
	for name, end := range map[string]func(l *ledger.Ledger) error{
		"recall": func(l *ledger.Ledger) error { return l.Recall(t.Context(), 7) },
		"forget": func(l *ledger.Ledger) error { return l.Forget(t.Context(), 7) },
	} {
		t.Run(name, func(t *testing.T) {
			records := memledger.New()
			store := &overtaken{shared: &shared{Store: records}}
			open := func(s ledger.Store) *ledger.Ledger {
				l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, s, memory.New(memory.Config{}))
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			other, own := open(&shared{Store: records}), open(store)
			store.first = func() {
				if err := other.Recall(t.Context(), 7); err != nil {
					t.Error(err)
				}
			}
			if err := end(own); err != nil {
				t.Error(err)
			}
			if store.first != nil {
				t.Error("nothing was written")
			}
		})
	}
}

// openSigned opens a ledger to which signed tasks can be claimed.
func openSigned(t *testing.T, s ledger.Store) *ledger.Ledger {
	t.Helper()
	cfg := ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1, Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) }}
	l, err := ledger.Open(t.Context(), cfg, s, memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// taskOfSeven is a task of channel 7.
func taskOfSeven(gen channel.Gen) (task channel.Signed, raw []byte) {
	body := channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: "http://a.example"}, Seeds: []string{"http://a.example/"}, Contact: "https://example.org/"}
	raw, now := body.Marshal(), time.Now()
	h := channel.Header{Network: [32]byte{1}, Channel: 7, Gen: gen, Host: "http://a.example", Pages: 10, Issued: now, Latest: now.Add(time.Hour), BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw), Archive: "archive"}
	return channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}, raw
}

// change has a program store something of channel 7.
func change(t *testing.T, l *ledger.Ledger) {
	r, err := l.Revise(7)
	if err == nil {
		err = r.Commit(&ledger.Job{})
		r.Release()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestEvictIsSettled has a member's claim ended while another program changes the channel, twice in a row.
func TestEvictIsSettled(t *testing.T) {
	records := memledger.New()
	store := &overtaken{shared: &shared{Store: records}}
	own := openSigned(t, store)
	task, raw := taskOfSeven(1)
	if err := own.Deposit(t.Context(), task, raw); err != nil {
		t.Fatal(err)
	}
	if c, err := own.Claim(t.Context(), "bad", task); err != nil || c.Status != lease.Granted {
		t.Fatalf("%v %v", c.Status, err)
	}
	other, left := openSigned(t, &shared{Store: records}), 2
	var overtake func()
	overtake = func() {
		change(t, other)
		if left--; left > 0 {
			store.first = overtake
		}
	}
	store.first = overtake
	if n, err := own.Evict(t.Context(), []string{"bad"}); n != 1 || err != nil || left != 0 {
		t.Errorf("%d claims ended, %v; it was overtaken %d times", n, err, 2-left)
	}
}

// TestTakeBackIsSettled has a task taken back that no peer has claimed while another program changes the channel: it is taken back all the same.
func TestTakeBackIsSettled(t *testing.T) {
	records := memledger.New()
	store := &overtaken{shared: &shared{Store: records}}
	own, other := openSigned(t, store), openSigned(t, &shared{Store: records})
	task, body := taskOfSeven(1)
	if err := own.Deposit(t.Context(), task, body); err != nil {
		t.Fatal(err)
	}
	store.first = func() { change(t, other) }
	if err := own.TakeBack(t.Context(), 7, 1); err != nil || store.first != nil {
		t.Errorf("%v; overtaken: %v", err, store.first == nil)
	}
	if c, err := openSigned(t, &shared{Store: records}).Claim(t.Context(), "late", task); err != nil || c.Status == lease.Granted {
		t.Errorf("a claim of what was taken back: %v, %v", c.Status, err)
	}
}

// TestDepositIsSettled has a task deposited while another program changes the channel: it is deposited all the same, and the manager has nothing to tell the operator.
func TestDepositIsSettled(t *testing.T) {
	records := memledger.New()
	store := &overtaken{shared: &shared{Store: records}}
	own, other := openSigned(t, store), openSigned(t, &shared{Store: records})
	store.first = func() { change(t, other) }
	task, body := taskOfSeven(1)
	if err := own.Deposit(t.Context(), task, body); err != nil || store.first != nil {
		t.Errorf("%v; overtaken: %v", err, store.first == nil)
	}
	if c, err := openSigned(t, &shared{Store: records}).Claim(t.Context(), "peer", task); err != nil || c.Status != lease.Granted {
		t.Errorf("its claim: %v, %v", c.Status, err)
	}
}
