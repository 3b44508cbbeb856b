package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// maxValidators bounds the bytes of the validators of one task: they share its body with digests and seeds.
const maxValidators = 512 << 10

// Known is what the archive knows of a channel's pages, for the body of its next task.
type Known struct {
	Pages      int // that the stored copy has
	Digests    []channel.PageDigest
	Inter      []uint64
	Validators []channel.Validator
	Importance []channel.Importance
	Missed     []string // URLs of stored pages that were not visited since, those first that wait longest

	// Of the pages that are to be looked at:
	Depths map[uint64]int
	Links  []uint64 // hashes of the URLs that the stored versions link to
}

// Limits of Known.Missed.
const (
	maxMissed      = 1000
	maxMissedBytes = 64 << 10
)

// Known gathers what the next task of a channel should know, within the limits of a task's body; where not all pages fit, those that
// change most often come first. since is when its last crawl began: pages that it did not come across, as nothing of the channel links to
// them any more, or only other sites ever did, would not be looked at again, nor found to be gone. Of pages that are to be looked at by a peer that must not know
// what others saw, named by their hashes, there is neither digest nor validator.
func (p *Pages) Known(ctx context.Context, id channel.ID, since time.Time, looked ...uint64) (Known, error) {
	var pages []knownPage
	var k Known
	missed := missed{before: schema.Micros(since)}
	err := p.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Page)
		tells, err := p.telling(snap, id)
		if err != nil {
			return err
		}
		err = snap.Scan(schema.Key(schema.Page, uint64(id)), nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if past, err := respelt(snap, id, m); err != nil || past {
				return true, err
			}
			if m.Withdrawn {
				m.FetchedUs = 0 // nothing is known of it: it waits longest
			}
			if !m.Gone {
				k.Pages++
			}
			if !m.Gone || m.Withdrawn {
				missed.look(m)
			}
			blind := len(looked) > 0 && slices.Contains(looked, schema.Number(key, 1))
			if blind {
				if k.Links, err = linksOf(snap, id, schema.Number(key, 1), k.Links); err != nil {
					return false, err
				}
				if k.Depths == nil {
					k.Depths = map[uint64]int{}
				}
				k.Depths[schema.Number(key, 1)] = int(m.Depth)
			}
			if m.Gone || m.Digest == 0 {
				return true, ctx.Err()
			}
			rank, err := RankAt(snap, append([]byte{schema.Rank}, key[1:]...))
			if err != nil {
				return false, err
			}
			url := schema.Number(key, 1)
			told, sure, err := tells(url, m)
			if err != nil {
				return false, err
			}
			page := knownPage{url: url, digest: toldOf(m), rate: float32(m.Changes+1) / float32(m.Visits+2), rank: rank, told: told && !blind}
			if sure || !askedWhole(url, since) {
				page.etag, page.modified = string(m.Etag), string(m.LastModified)
			} else if m.Raw != 0 {
				page.told = false // of what was sent the digest of the page as it came says nothing
			}
			pages = append(pages, page)
			return true, ctx.Err()
		})
		if err != nil {
			return err
		}
		return snap.Scan(schema.Key(schema.Inter, uint64(id)), nil, false, func(key, _ []byte) (bool, error) {
			k.Inter = append(k.Inter, schema.Number(key, 1))
			return len(k.Inter) < channel.MaxKnownInter, ctx.Err()
		})
	})
	if err != nil {
		return Known{}, fmt.Errorf("known pages of channel %d: %w", id, err)
	}
	k.Missed = missed.urls()
	k.tell(pages)
	return k, nil
}

// respelt reports whether a page that a peer of 0.1.0 stored, with "^" in its path, was looked at since in the spelling of today. No peer would fetch it as it is stored.
func respelt(snap ledger.Snapshot, id channel.ID, old *pb.Page) (bool, error) {
	url := channel.Respell(old.Url)
	if url == old.Url {
		return false, nil
	}
	m := new(pb.Page)
	ok, err := ledger.Get(snap, schema.Key2(schema.Page, uint64(id), channel.URLHash(url)), m)
	return ok && m.Url == url && m.FetchedUs >= old.FetchedUs, err
}

// knownPage is what is known of a page that is there.
type knownPage struct {
	url, digest    uint64
	rate           float32 // changes a visit
	rank           float32
	etag, modified string
	told           bool // a peer may be told what it is said to be
}

// askedWhole tells whether a page that only two accounts have seen alike is to be seen whole this time: each second crawl. The validators that came with it are their word. Two
// liars could name the true page's with another content, and the host would say to all who come later that nothing has changed.
func askedWhole(url uint64, since time.Time) bool {
	return !since.IsZero() && (url^uint64(since.UnixMicro()))*0x9e3779b97f4a7c15>>63 == 0
}

// telling tells which pages of a channel a peer may be told digest and validators of, and of which a third account is sure: those for which trust.Page.Tells holds, of the version that is stored. Else
// a peer could say that a page is as it was told, and so confirm a liar's version without having seen it. Where only one account delivers, no other
// could confirm anything, and all is told. As long as no page was ever judged, another account's delivery of the same content counts.
func (p *Pages) telling(snap ledger.Snapshot, id channel.ID) (func(url uint64, m *pb.Page) (told, sure bool, err error), error) {
	if !p.ledger.Several() {
		return func(uint64, *pb.Page) (bool, bool, error) { return true, true, nil }, nil
	}
	if !p.judged.Load() {
		err := snap.Scan([]byte{schema.Trust}, nil, false, func([]byte, []byte) (bool, error) {
			p.judged.Store(true)
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !p.judged.Load() {
		return func(_ uint64, m *pb.Page) (bool, bool, error) { return m.Account == 0 || m.Confirmed, true, nil }, nil
	}
	t := new(pb.Trust)
	return func(url uint64, m *pb.Page) (bool, bool, error) {
		if m.Settled != 0 && m.Settled == m.Digest { // most pages are
			return true, true, nil
		}
		t.Reset()
		_, err := ledger.Get(snap, schema.Key2(schema.Trust, uint64(id), url), t)
		g := recordOf(t)
		return g.Tells() && g.Cur.Digest == m.Digest, g.Cur.Seen() > 1, err
	}, nil
}

// tell adds what of the pages fits into a task: those that change most often first.
func (k *Known) tell(pages []knownPage) {
	slices.SortFunc(pages, func(x, y knownPage) int {
		return cmp.Or(-cmp.Compare(x.rate, y.rate), cmp.Compare(x.url, y.url))
	})
	room := maxValidators
	for n, p := range pages {
		if n >= channel.MaxDigests {
			break
		}
		if p.rank > 0 {
			k.Importance = append(k.Importance, channel.Importance{URL: p.url, Rank: p.rank})
		}
		if !p.told {
			continue
		}
		k.Digests = append(k.Digests, channel.PageDigest{URL: p.url, Content: p.digest})
		if size := len(p.etag) + len(p.modified); size > 0 && room > size+24 {
			room -= size + 24
			k.Validators = append(k.Validators, channel.Validator{URL: p.url, ETag: p.etag, LastModified: p.modified})
		}
	}
}

// missed collects the pages that were visited longest ago, before some time.
type missed struct {
	before int64
	pages  []visited
}

type visited struct {
	at  int64
	url string
}

func byVisit(x, y visited) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.url, y.url)) }

func (m *missed) look(p *pb.Page) {
	if p.FetchedUs >= m.before {
		return
	}
	if m.pages = append(m.pages, visited{p.FetchedUs, p.Url}); len(m.pages) >= 2*maxMissed {
		slices.SortFunc(m.pages, byVisit)
		m.pages = m.pages[:maxMissed]
	}
}

func (m *missed) urls() (out []string) {
	slices.SortFunc(m.pages, byVisit)
	room := maxMissedBytes
	for _, p := range m.pages[:min(len(m.pages), maxMissed)] {
		if room -= len(p.url) + 4; room < 0 {
			break
		}
		out = append(out, p.url)
	}
	return out
}
