package pages

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Delivery is what one claim delivered, as the manager's trust.Machine is told of it.
type Delivery struct {
	Channel   channel.ID
	Gen       channel.Gen
	Deliverer trust.Peer
	Account   trust.Account // of the deliverer
	Prefix    trust.Prefix  // of its address; 0: it was not known
	Claimed   time.Time     // no page was fetched before
	Host      string        // as channel.Scope.Host
	Pages     []Delivered
	Quiet     []trust.Quiet // pages of which it says nothing new, and whose records that does not change

	facts   map[uint64]*pb.Visited // what it says of its pages
	chunks  []ledger.Change        // that forget it
	records map[uint64]*pb.Trust   // of its pages; those that have none are not in it
	revised uint64                 // as of which
}

// fact is what it says of a page; nil: nothing. A nil Delivery says nothing.
func (d *Delivery) fact(hash uint64) *pb.Visited {
	if d == nil {
		return nil
	}
	return d.facts[hash]
}

// Size is how many pages there are.
func (d *Delivery) Size() int {
	n := len(d.Pages)
	for i := range d.Quiet {
		n += len(d.Quiet[i].URLs)
	}
	return n
}

// Delivered is one page of a delivery, with its record as it was before.
type Delivered struct {
	URL      string
	Hash     uint64 // channel.URLHash(URL)
	Final    string // where the page leads, if its status says that it leads elsewhere
	Fetched  time.Time
	Status   int
	Change   channel.Change
	Digest   uint64 // of the content that the peer fetched, by its own computation; 0: it says "unchanged" and names none, as after a 304
	Raw      uint64 // digest of the page as it came, where less was sent; 0: all was
	Shingle  uint64
	Modified int64      // as Modified, of the answer
	Size     int        // bytes of the stored version
	Visits   int        // of the page, with this one
	Changes  int        // of them that found a change which counts
	First    time.Time  // visit
	Record   trust.Page // of which nothing was ever said: the zero Page, or one provisional version if the page was stored before
}

// Delivery reads what a claim delivered, and the records of its pages, for Machine.Deliver. It is there from the first chunk of the claim on, until Judge says
// that it was taken in, or the channel is claimed again: the manager reads it when the feed says that the task has ended, before it hands the channel out
// again. Pages that Judge has stored already, before a kill, are left out; so are pages that were removed since, and those that were gone.
// A Delivery without pages needs no Machine.
func (p *Pages) Delivery(ctx context.Context, id channel.ID, gen channel.Gen) (Delivery, error) {
	d := Delivery{Channel: id, Gen: gen, revised: p.revised.Load()}
	err := p.ledger.View(func(snap ledger.Snapshot) error {
		visits, err := d.visits(ctx, snap)
		if err != nil || len(visits) == 0 && len(d.Quiet) == 0 {
			return err
		}
		var c pb.Channel
		if _, err := ledger.Get(snap, schema.Key(schema.Channel, uint64(id)), &c); err != nil {
			return err
		}
		d.Host = c.Host
		if d.records, err = records(snap, id, visits); err != nil {
			return err
		}
		for _, v := range visits {
			t := d.records[v.Url]
			if t == nil {
				t = without(v.Before)
			} else if t.Gen >= uint64(gen) {
				continue // it was taken in
			}
			d.Pages = append(d.Pages, delivered(t, v))
		}
		return ctx.Err()
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("delivery of channel %d, generation %d: %w", id, gen, err)
	}
	return d, nil
}

// visits reads what the claim's chunks say. A page that was visited twice counts once, as it was the last time.
func (d *Delivery) visits(ctx context.Context, snap ledger.Snapshot) (visits []*pb.Visited, err error) {
	at := map[uint64]int{}
	d.facts, d.chunks = map[uint64]*pb.Visited{}, nil
	err = eachDelivered(snap, d.Channel, d.Gen, func(key []byte, m *pb.Delivered) error {
		d.chunks = append(d.chunks, ledger.Change{Key: bytes.Clone(key)})
		d.Deliverer, d.Account, d.Prefix, d.Claimed = trust.Peer(m.Deliverer), trust.Account(m.Account), trust.Prefix(m.Prefix), schema.Time(m.ClaimedUs)
		for _, v := range m.Pages {
			d.facts[v.Url] = v
			if i, twice := at[v.Url]; twice {
				visits[i] = v
				continue
			}
			at[v.Url] = len(visits)
			visits = append(visits, v)
		}
		for _, q := range m.Quiet {
			d.Quiet = append(d.Quiet, trust.Quiet{Last: trust.Peer(q.LastBy), URLs: q.Urls})
		}
		return ctx.Err()
	})
	for i := range d.Quiet {
		d.Quiet[i].URLs = slices.DeleteFunc(d.Quiet[i].URLs, func(url uint64) bool { _, twice := at[url]; return twice })
	}
	d.Quiet = slices.DeleteFunc(d.Quiet, func(q trust.Quiet) bool { return len(q.URLs) == 0 })
	return visits, err
}

// eachDelivered calls do for each chunk of a claim, in their order.
func eachDelivered(snap ledger.Snapshot, id channel.ID, gen channel.Gen, do func(key []byte, m *pb.Delivered) error) error {
	return snap.Scan(schema.Key2(schema.Delivered, uint64(id), uint64(gen)), nil, true, func(key, value []byte) (bool, error) {
		m := new(pb.Delivered)
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		return true, do(key, m)
	})
}

// delivered is what the Machine must know of one page, whose record is t.
func delivered(t *pb.Trust, v *pb.Visited) Delivered {
	g := recordOf(t)
	lastSeen(&g, v.LastBy, v.LastAt)
	return Delivered{
		URL: v.Address, Hash: v.Url, Final: string(v.Final), Fetched: schema.Time(v.FetchedUs), Status: int(v.Status), Change: channel.Change(v.Change),
		Digest: v.Digest, Raw: v.Raw, Shingle: v.Shingle, Modified: v.Modified, Size: int(v.Size), Visits: int(v.Visits), Changes: int(v.Changes), First: schema.Time(v.FirstUs),
		Record: g,
	}
}

// records looks up the records of the pages of some visits. Scanning the channel's records would read those of pages of which nothing is new as well, and every
// older form of each that the database has not dropped yet.
func records(snap ledger.Snapshot, id channel.ID, visits []*pb.Visited) (map[uint64]*pb.Trust, error) {
	urls := make([]uint64, len(visits))
	for i, v := range visits {
		urls[i] = v.Url
	}
	slices.Sort(urls) // as they are kept
	out := make(map[uint64]*pb.Trust, len(urls))
	for _, url := range urls {
		t, found, err := trustOf(snap, uint64(id), url)
		if err != nil {
			return nil, err
		}
		if found {
			out[url] = t
		}
	}
	return out, nil
}

// Record reads the record of one page of a channel, for a ruling or an audit; hash is channel.URLHash of its URL. ErrNotFound: there is no such page any more.
func (p *Pages) Record(ctx context.Context, id channel.ID, hash uint64) (d Delivered, err error) {
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Page)
		if ok, err := ledger.Get(snap, schema.Key2(schema.Page, uint64(id), hash), m); err != nil || !ok {
			return firstOf(err, ErrNotFound)
		}
		t, found, err := trustOf(snap, uint64(id), hash)
		if err != nil {
			return err
		}
		if !found {
			t = without(storedBefore(m))
		}
		d = Delivered{
			URL: m.Url, Hash: hash, Fetched: schema.Time(m.FetchedUs), Status: int(m.Status), Digest: m.Digest, Raw: m.Raw, Shingle: m.Shingle, Size: int(m.Size),
			Visits: int(m.Visits), Changes: int(m.Changes), First: schema.Time(m.FirstUs), Record: recordOf(t),
			Modified: dated(string(m.LastModified), schema.Time(m.FetchedUs).Add(-clocksApart)),
		}
		lastSeen(&d.Record, m.LastBy, m.LastAt)
		return ctx.Err()
	})
	if err != nil {
		return Delivered{}, fmt.Errorf("record of a page of channel %d: %w", id, err)
	}
	return d, nil
}
