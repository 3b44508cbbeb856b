package badgerdb

import (
	"bytes"
	"context"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Holders is Lookup of many URLs at once; 0: no channel holds it.
func (db *DB) Holders(ctx context.Context, canonicalURLs []string) ([]channel.ID, error) {
	ids := make([]channel.ID, len(canonicalURLs))
	err := db.view(func(b *badger.Txn, staged ranges) (err error) {
		it := b.NewIterator(keysOnly([]byte{keyPlace})) // one for all: to make one costs more than to find a key with it
		defer it.Close()
		p := places{it: it, staged: staged, of: map[string]map[string]channel.ID{}}
		for i, url := range canonicalURLs {
			if ids[i], err = p.holder(url); err != nil {
				return err
			}
			if i%1024 == 0 && ctx.Err() != nil {
				break
			}
		}
		return ctx.Err()
	})
	return ids, err
}

// places finds channels by host and directory.
type places struct {
	it     *badger.Iterator
	staged ranges
	of     map[string]map[string]channel.ID // the directories of each host that was asked for, by host; nil: it has more than fewPlaces
}

// fewPlaces is how many places of a host are read at once.
const fewPlaces = 64

// holder is the channel of the most specific directory that a URL lies in; 0: there is none.
func (p *places) holder(canonicalURL string) (channel.ID, error) {
	origin := channel.Origin(canonicalURL)
	few, seen := p.of[origin]
	if !seen {
		var err error
		if few, err = p.read(origin); err != nil {
			return 0, err
		}
		p.of[origin] = few
	}
	path, _, _ := strings.Cut(channel.Respell(canonicalURL[len(origin):]), "?")
	if !strings.HasSuffix(path, "/") {
		path += "/" // "/a" belongs to the directory "/a/"
	}
	look := func(dir string) (channel.ID, error) {
		if few != nil {
			return few[dir], nil
		}
		return p.find(origin, dir)
	}
	for dir := path; ; dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1] {
		id, err := look(dir)
		if former := channel.FormerSpelling(dir); err == nil && id == 0 && former != dir {
			id, err = look(former)
		}
		if err != nil || id != 0 || dir == "/" {
			return id, err
		}
	}
}

// read reads the directories of a host, each with its channel, the one of a single directory first; nil: there are more than fewPlaces.
func (p *places) read(origin string) (map[string]channel.ID, error) {
	host := hostKey(keyPlace, origin)
	few := map[string]channel.ID{}
	n := 0
	for p.it.Seek(host); p.it.ValidForPrefix(host); p.it.Next() {
		if n++; n > fewPlaces {
			return nil, nil
		}
		dir := p.it.Item().Key()[len(host):]
		end := bytes.IndexAny(dir, string([]byte{placeOne, placeSet}))
		if end < 0 {
			return nil, damaged("place", p.it.Item().Key())
		}
		id, err := placeID(p.it.Item())
		if err != nil {
			return nil, err
		}
		if few[string(dir[:end])] == 0 && !p.staged.has(id) {
			few[string(dir[:end])] = id
		}
	}
	return few, nil
}

// find is the channel of just one directory; 0: there is none.
func (p *places) find(origin, dir string) (channel.ID, error) {
	key := append(hostKey(keyPlace, origin), dir...)
	for p.it.Seek(key); p.it.ValidForPrefix(key); p.it.Next() {
		if c := p.it.Item().Key()[len(key)]; c != placeOne && c != placeSet {
			break // a longer directory
		}
		if id, err := placeID(p.it.Item()); err != nil || !p.staged.has(id) {
			return id, err
		}
	}
	return 0, nil
}
