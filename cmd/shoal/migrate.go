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
)

type migrateCmd struct {
	To   string `required:"" help:"Where the channels go: postgres://user:password@host:5432/database, or folder for the data folder itself." placeholder:"URL|folder"`
	Data string `help:"Data folder of the stopped manager." default:"${data}" type:"path" placeholder:"DIR"`
	JSON bool   `name:"json" help:"As JSON."`
}

// migrated is the result of a migration.
type migrated struct {
	Channels int    `json:"channels"`
	Items    int    `json:"items"` // channels, hosts, candidates, cursors, counters, states
	To       string `json:"to"`
	Kept     string `json:"kept"` // what is left of the database before
}

// Run moves the channel database between the data folder and a server. Nothing of the old one is removed.
func (c *migrateCmd) Run(ctx context.Context, s streams) error {
	data, err := dataOf(c.Data)
	if err != nil {
		return err
	}
	lock, err := archive.Open(ctx, archive.Config{Dir: filepath.Join(data, "archive"), Verify: noTasks}) // nobody works on the folder meanwhile
	if errors.Is(err, archive.ErrLocked) {
		return fmt.Errorf("a manager runs on %s: stop it first; what it learns meanwhile would be lost", data)
	}
	if err != nil {
		return err
	}
	done, err := c.move(ctx, data)
	if err = errors.Join(err, lock.Close()); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(done)
	}
	_, err = fmt.Fprintf(s.out, "moved %d channels (%d items, compared one by one) to %s\n%s\nStart the manager as before.\n", done.Channels, done.Items, done.To, done.Kept)
	return err
}

func (c *migrateCmd) move(ctx context.Context, data string) (done migrated, err error) {
	url, err := databaseURL(data)
	if err != nil {
		return done, err
	}
	switch {
	case c.To == "folder" && url == "":
		return done, fmt.Errorf("the channels of %s lie in its folder already", data)
	case c.To != "folder" && url != "":
		return done, fmt.Errorf("the channels of %s lie on a server already: move them to the folder first, with --to folder", data)
	}
	keys, err := member.LoadOrCreate(filepath.Join(data, "keys"), time.Now())
	if err != nil {
		return done, err
	}
	from, err := openDatabase(ctx, data, "", keys.Network, nil)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if c.To == "folder" {
		return toFolder(ctx, data, from, keys.Network)
	}
	return toServer(ctx, data, from, c.To, keys.Network)
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
	return done, os.Remove(filepath.Join(data, databaseFile)) // from here on the folder counts
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
