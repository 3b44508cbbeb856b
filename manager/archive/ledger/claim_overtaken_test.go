package ledger_test

import (
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc/memory"
)

// TestClaimOvertakenByItsDisk has a peer claim its task in time on a disk that is slow. If that took longer than the manager waits for the feed, which may have sent somebody
// else to the host by then, the claim does not hold, and the peer has nothing to answer for.
func TestClaimOvertakenByItsDisk(t *testing.T) {
	for took, want := range map[time.Duration]lease.Status{2 * time.Second: lease.Granted, 8 * time.Second: lease.Late} {
		task, raw := taskOfSeven(1)
		h, err := channel.ParseHeader(task.Raw)
		if err != nil {
			t.Fatal(err)
		}
		now, ahead, records := h.Latest.Add(-time.Hour), time.Duration(0), memledger.New()
		cfg := ledger.Config{Terms: lease.Default(), Clock: func() time.Time { return now.Add(ahead) }, Log: slog.New(slog.DiscardHandler), InFlight: 1,
			Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) }}
		l, err := ledger.Open(t.Context(), cfg, records, memory.New(memory.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Deposit(t.Context(), task, raw); err != nil {
			t.Fatal(err)
		}
		ahead = time.Hour - 10*time.Second // the latest start is in an hour
		slow := 9*time.Second + took
		records.Fail = func(int) error {
			ahead, slow = ahead+slow, 0
			return nil
		}
		c, err := l.Claim(t.Context(), "a", task)
		if err != nil || c.Status != want || (c.Body != nil) != (want == lease.Granted) {
			t.Errorf("a claim that became durable %v after its latest start: %v, %v; want %v", took-time.Second, c.Status, err, want)
		}
		entries, _, err := l.Feed(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(entries); want == lease.Granted && n != 1 || want == lease.Late && (n != 2 || entries[1].Event.Kind != lease.Released || entries[1].Event.By != 0) {
			t.Errorf("after %v the feed says %+v", took, entries)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
