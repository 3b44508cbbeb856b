package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/internal/member"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger/pgledger"
	"shoal/manager/archive/remote"
)

type migrateCmd struct {
	To     string `required:"" help:"Where the channels go: postgres://user:password@host:5432/database, or folder for the data folder itself, with the archive." placeholder:"URL|folder"`
	Bucket string `help:"Where the archive's pages go, its ledger going where the channels are: s3://KEY:SECRET@host:port/bucket. Default: the archive stays where it is." placeholder:"URL"`
	Data   string `help:"Data folder of the stopped manager." default:"${data}" type:"path" placeholder:"DIR"`
	JSON   bool   `name:"json" help:"As JSON."`
}

// migrated is the result of a migration.
type migrated struct {
	Channels int           `json:"channels"`
	Items    int           `json:"items"` // channels, hosts, candidates, cursors, counters, states
	To       string        `json:"to"`
	Kept     string        `json:"kept"`              // what is left of the database before
	Archive  *remote.Moved `json:"archive,omitempty"` // nil: it stays where it is
}

// Run moves the channel database, and the archive, between the data folder and servers. Nothing of the old ones is removed.
func (c *migrateCmd) Run(ctx context.Context, s streams) error {
	data, err := dataOf(c.Data)
	if err != nil {
		return err
	}
	if c.Bucket != "" && c.To == "folder" {
		return errors.New("--to folder brings the archive back as well: leave --bucket out")
	}
	keys, err := member.LoadOrCreate(filepath.Join(data, "keys"), time.Now())
	if err != nil {
		return err
	}
	place, err := c.archivePlace(ctx, data, keys.Network)
	if err != nil {
		return err
	}
	var done migrated
	if c.To == "folder" && place != nil {
		if done.Archive, err = c.archive(ctx, s, data, place); err != nil {
			return err
		}
	}
	if done, err = c.channels(ctx, data, done, keys.Network, place != nil); err != nil {
		return err
	}
	if c.To != "folder" && place != nil {
		if done.Archive, err = c.archive(ctx, s, data, place); err != nil {
			return err
		}
	}
	return c.tell(s, done)
}

// archivePlace says where the archive goes, or comes from; nil: it stays where it is.
func (c *migrateCmd) archivePlace(ctx context.Context, data string, network [32]byte) (*remote.Place, error) {
	place, err := remote.Of(data)
	if err != nil {
		return nil, err
	}
	if c.To == "folder" {
		if place != nil {
			place.Network = network
		}
		return place, nil
	}
	if c.Bucket == "" {
		return nil, nil
	}
	if place != nil { // only the note may be there, of a migration that was broken off
		a, err := openStopped(ctx, data)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("the archive of %s lies in a bucket already: move it to the folder first, with --to folder", data), a.Close())
		}
		if !errors.Is(err, pgledger.ErrOwn) {
			return nil, stopFirst(data, err)
		}
	}
	return &remote.Place{DB: c.To, Bucket: c.Bucket, Network: network}, bucket.Look(ctx, bucket.Config{URL: c.Bucket, Network: network})
}

// stopFirst says so, where a manager works on the data.
func stopFirst(data string, err error) error {
	if errors.Is(err, archive.ErrLocked) {
		return fmt.Errorf("a manager runs on %s: stop it first; what it learns meanwhile would be lost", data)
	}
	return err
}

// archive moves the archive.
func (c *migrateCmd) archive(ctx context.Context, s streams, data string, place *remote.Place) (*remote.Moved, error) {
	tell := func(text string) { fmt.Fprintln(s.err, text) }
	move := remote.Up
	if c.To == "folder" {
		move = remote.Down
	}
	moved, err := move(ctx, data, *place, tell)
	return &moved, stopFirst(data, err)
}

// channels moves the channels, unless they are there already and the archive alone was meant.
func (c *migrateCmd) channels(ctx context.Context, data string, done migrated, network [32]byte, also bool) (migrated, error) {
	url, err := databaseURL(data)
	if err != nil {
		return done, err
	}
	if also && (c.To == url || c.To == "folder" && url == "") {
		return done, nil
	}
	lock, err := openStopped(ctx, data) // nobody works on the folder meanwhile
	if err != nil && !errors.Is(err, pgledger.ErrOwn) {
		return done, stopFirst(data, err)
	}
	moved, err := c.move(ctx, data, url, network)
	moved.Archive = done.Archive
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	return moved, err
}

func (c *migrateCmd) tell(s streams, done migrated) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(done)
	}
	if done.To != "" {
		if _, err := fmt.Fprintf(s.out, "moved %d channels (%d items, compared one by one) to %s\n%s\n", done.Channels, done.Items, done.To, done.Kept); err != nil {
			return err
		}
	}
	if a := done.Archive; a != nil {
		kept := "The folder's archive is kept in " + a.Kept + "; remove it when you like."
		if c.To == "folder" {
			kept = "What is in the bucket, and the schema " + pgledger.Schema + " of the server, are kept; remove them when you like."
		}
		if _, err := fmt.Fprintf(s.out, "moved the archive: %d files, %d records, %d captures, %d bytes, every record read back\n%s\n", a.Segments, a.Records, a.Captures, a.Bytes, kept); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.out, "Start the manager as before.")
	return err
}

func (c *migrateCmd) move(ctx context.Context, data, url string, network [32]byte) (done migrated, err error) {
	switch {
	case c.To == "folder" && url == "":
		return done, fmt.Errorf("the channels of %s lie in its folder already", data)
	case c.To != "folder" && url != "":
		return done, fmt.Errorf("the channels of %s lie on a server already: move them to the folder first, with --to folder", data)
	}
	from, err := openDatabase(ctx, data, "", network, nil)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if c.To == "folder" {
		return toFolder(ctx, data, from, network)
	}
	return toServer(ctx, data, from, c.To, network)
}

func toServer(ctx context.Context, data string, from database, url string, network [32]byte) (done migrated, err error) {
	scratch, err := os.MkdirTemp(data, "migrate-") // openDatabase notes the server in the folder that it is given
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	to, err := openDatabase(ctx, scratch, url, network, nil)
	if err != nil {
		return done, err
	}
	if done, err = copyAll(ctx, from, to); err != nil {
		return done, errors.Join(err, to.Close())
	}
	if err := to.Close(); err != nil {
		return done, err
	}
	old := filepath.Join(data, fmt.Sprint(channelsFolder, ".before-", time.Now().UTC().Format("20060102-150405")))
	if err := from.Close(); err != nil {
		return done, err
	}
	if err := noteDatabase(data, url); err != nil { // from here on the server counts
		return done, err
	}
	done.To, done.Kept = "the server", "The folder's database is kept in "+old+"; remove it when you like."
	return done, os.Rename(filepath.Join(data, channelsFolder), old)
}

func toFolder(ctx context.Context, data string, from database, network [32]byte) (done migrated, err error) {
	part := filepath.Join(data, channelsFolder+".part")
	if err := os.RemoveAll(part); err != nil { // of a migration that was broken off
		return done, err
	}
	cfg := badgerdb.Default(part)
	cfg.Network = network
	to, err := badgerdb.Open(ctx, cfg)
	if err != nil {
		return done, err
	}
	if done, err = copyAll(ctx, from, to); err != nil {
		return done, errors.Join(err, to.Close(), os.RemoveAll(part))
	}
	if err := to.Close(); err != nil {
		return done, err
	}
	if err := os.Rename(part, filepath.Join(data, channelsFolder)); err != nil {
		return done, err
	}
	done.To, done.Kept = "the folder", "The server's tables are kept; remove them with DROP SCHEMA shoal CASCADE when you like."
	return done, os.Remove(filepath.Join(data, remote.DatabaseFile)) // from here on the folder counts
}

// copyAll copies a database into an empty one, reads both again and compares. If the other one already holds the same,
// because an earlier migration was broken off behind the copy, that is as good.
func copyAll(ctx context.Context, from, to database) (done migrated, err error) {
	loaded := to.Load(ctx, dumped(ctx, from))
	if loaded != nil && !errors.Is(loaded, channel.ErrNotEmpty) {
		return done, loaded
	}
	var a, b channel.Sum
	if err := from.Dump(ctx, func(it channel.Item) error {
		a.Add(&it)
		if it.Channel != nil {
			done.Channels++
		}
		return nil
	}); err != nil {
		return done, err
	}
	if err := to.Dump(ctx, func(it channel.Item) error { b.Add(&it); return nil }); err != nil {
		return done, err
	}
	switch done.Items = a.Items(); {
	case a.Equal(&b):
		return done, nil
	case loaded != nil:
		return done, loaded
	}
	return done, fmt.Errorf("the copy does not hold what the database holds: nothing was changed; this is a fault of this program, please report it (%d items and %d)", a.Items(), b.Items())
}
