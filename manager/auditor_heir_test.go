package manager

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// leftBehind are managers that have gone, which had judged the feed up to some cursors.
type leftBehind struct {
	Shared
	judged []string
	audits string
}

func (l *leftBehind) Left(_ context.Context, name string) (out [][]byte, err error) {
	if name == stateErrands {
		return [][]byte{[]byte(l.audits), []byte("torn")}, nil
	}
	for _, c := range l.judged {
		out = append(out, []byte(c))
	}
	return out, nil
}

// feedOf is an archive whose feed has an entry for each channel, cursors of two digits, and batches of two.
type feedOf struct {
	Archive
	entries []archive.Entry
}

func (f *feedOf) Feed(_ context.Context, after string, _ int) ([]archive.Entry, string, error) {
	for i := range f.entries {
		if f.entries[i].Cursor > after {
			part := f.entries[i:min(i+2, len(f.entries))]
			return part, part[len(part)-1].Cursor, nil
		}
	}
	return nil, after, nil
}

// TestUnjudgedOfGoneManagers has a manager take partitions of others that have gone: what these had taken in of the feed and not judged is judged, of these
// partitions alone. What the others had not taken in comes with the feed anyway.
func TestUnjudgedOfGoneManagers(t *testing.T) {
	f := &feedOf{}
	parts := map[channel.ID]uint8{}
	c := &core{inbox: newInbox(time.Now), log: slog.New(slog.DiscardHandler), table: dispatch.NewTable()}
	for id := channel.ID(1); id <= 9; id++ {
		key := channel.KeyOf(fmt.Sprint("http://", id, ".example"))
		if parts[id] = key.Part(); id != 9 { // which another manager has
			c.table.Put(recrawl.Slot(id), id, key)
		}
		f.entries = append(f.entries, archive.Entry{Channel: id, Cursor: fmt.Sprintf("%02d", id), Event: lease.Event{Kind: lease.Reported}, Report: &channel.Report{Pages: int(id) % 8}})
	}
	earliest := func(cursors ...string) (string, error) { return slices.Min(cursors), nil }
	c.cfg.Archive = f
	audit := func(host int, until time.Time, more string) string {
		return fmt.Sprintf(`{"host":"http://%d.example","pages":[{"url":"http://%d.example/"}],"until":%q%s}`, host, host, until.Format(time.RFC3339), more)
	}
	soon := time.Now().Add(time.Hour)
	audits := "[" + strings.Join([]string{audit(3, soon, ""), audit(5, soon, ""), audit(6, soon, `,"place":1`), audit(6, soon, `,"arbiter":true`), audit(6, time.Now().Add(-time.Hour), "")}, ",") + "]"
	c.tenancy = &tenancy{core: c, Several: &Several{Shared: &leftBehind{judged: []string{"04", "02", ""}, audits: audits}, Earliest: earliest}}
	au := &auditor{core: c, errands: &errands{core: c}}
	var got []channel.ID
	au.again = func(before string, e *archive.Entry) {
		got = append(got, e.Channel)
		if want := fmt.Sprintf("%02d", e.Channel-1); before != want {
			t.Errorf("the feed's cursor before channel %d is %q", e.Channel, before)
		}
	}
	taken := channel.Taken{Parts: []uint8{parts[3], parts[4], parts[6], parts[8], parts[9]}, Cursors: []string{"07", "03", "07", "09", "07"}}
	if err := (heir{au}).judgeLeft(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if w := au.errands.waits; len(w) != 1 || w[0].host != "http://3.example" || len(w[0].pages) != 1 {
		t.Errorf("%d audits wait of those that had waited, of hosts that were taken: %+v", len(w), w)
	}
	// 1 and 2 were judged by all; 5 and 7 are not taken; of 4 its manager had come to 3; 8 brought nothing; 9 is not here.
	if want := []channel.ID{3, 6}; !slices.Equal(got, want) {
		t.Errorf("judged are %v, want %v", got, want)
	}
}

// TestSomeLeft tells when managers have gone.
func TestSomeLeft(t *testing.T) {
	of := func(ids ...channel.Epoch) *channel.Tenure {
		var now channel.Tenure
		for _, id := range ids {
			now.Tenants = append(now.Tenants, channel.Tenancy{ID: id})
		}
		return &now
	}
	for i, c := range []struct {
		before, now *channel.Tenure
		want        bool
	}{{nil, of(1), true}, {nil, of(1, 2), false}, {of(1), of(1, 2), false}, {of(1, 2), of(1, 2), false}, {of(1, 2), of(1), true}, {of(1, 2), of(1, 3), true}} {
		if got := someLeft(c.before, c.now); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}
