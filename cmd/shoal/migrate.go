package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	Data   string `help:"Data folder of the manager. One that runs goes on while most is copied, and pauses for the rest." default:"${data}" type:"path" placeholder:"DIR"`
	JSON   bool   `name:"json" help:"As JSON."`

	ahead *remote.Ahead // what was copied while the manager ran; nil: it is stopped, and everything is read back
}

// migrated is the result of a migration.
type migrated struct {
	Channels int           `json:"channels"`
	Items    int           `json:"items"` // channels, hosts, candidates, cursors, counters, states
	To       string        `json:"to"`
	Kept     string        `json:"kept"`              // what is left of the database before
	Archive  *remote.Moved `json:"archive,omitempty"` // nil: it stays where it is
	Pause    float64       `json:"pause_s,omitempty"` // how long the manager did not run for it
}

// Run moves the channel database, and the archive, between the data folder and servers. Nothing of the old ones is removed.
func (c *migrateCmd) Run(ctx context.Context, s streams) error {
	if c.To != "folder" && !strings.HasPrefix(c.To, "postgres://") && !strings.HasPrefix(c.To, "postgresql://") {
		return fmt.Errorf("--to %s: want postgres://user:password@host:5432/database, or folder", c.To)
	}
	data, err := dataOf(c.Data)
	if err != nil {
		return err
	}
	if c.Bucket != "" && c.To == "folder" {
		return errFolderBucket
	}
	if runs, err := inUse(ctx, data); err != nil || runs {
		if err != nil {
			return err
		}
		return c.whileItRuns(ctx, s, data)
	}
	done, err := c.moveAll(ctx, s, data)
	if err != nil {
		return err
	}
	return c.tell(s, done)
}

var errFolderBucket = errors.New("--to folder brings the archive back as well: leave --bucket out")

func inFolderAlready(data string) error {
	return fmt.Errorf("the channels of %s lie in its folder already", data)
}

func onServerAlready(data string) error {
	return fmt.Errorf("the channels of %s lie on a server already: move them to the folder first, with --to folder", data)
}

func inBucketAlready(data string) error {
	return fmt.Errorf("the archive of %s lies in a bucket already: move it to the folder first, with --to folder", data)
}

// moveAll moves what no manager works on.
func (c *migrateCmd) moveAll(ctx context.Context, s streams, data string) (done migrated, err error) {
	keys, err := member.LoadOrCreate(filepath.Join(data, "keys"), time.Now())
	if err != nil {
		return done, err
	}
	place, err := c.archivePlace(ctx, data, keys.Network)
	if err != nil {
		return done, err
	}
	if c.To == "folder" && place != nil {
		if done.Archive, err = c.archive(ctx, s, data, place); err != nil {
			return done, err
		}
	}
	if done, err = c.channels(ctx, data, done, keys.Network, place != nil); err != nil {
		return done, err
	}
	if c.To != "folder" && place != nil {
		done.Archive, err = c.archive(ctx, s, data, place)
	}
	return done, err
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
			return nil, errors.Join(inBucketAlready(data), a.Close())
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
	var moved remote.Moved
	var err error
	switch {
	case c.To == "folder" && c.ahead != nil:
		moved, err = remote.DownRest(ctx, data, *place, c.ahead, tell)
	case c.To == "folder":
		moved, err = remote.Down(ctx, data, *place, tell)
	case c.ahead != nil:
		moved, err = remote.UpRest(ctx, data, *place, c.ahead, tell)
	default:
		moved, err = remote.Up(ctx, data, *place, tell)
	}
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
	if err != nil && !errors.Is(err, pgledger.ErrOwn) && !errors.Is(err, errNoArchive) {
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
		read := "every record read back"
		if done.Pause > 0 {
			read = "every file and the ledger read back"
		}
		if _, err := fmt.Fprintf(s.out, "moved the archive: %d files, %d records, %d captures, %d bytes, %s\n%s\n", a.Segments, a.Records, a.Captures, a.Bytes, read, kept); err != nil {
			return err
		}
	}
	if done.Pause > 0 {
		_, err := fmt.Fprintf(s.out, "The manager paused for %.1f s, and runs at the new place.\n", done.Pause)
		return err
	}
	_, err := fmt.Fprintln(s.out, "Start the manager as before.")
	return err
}

func (c *migrateCmd) move(ctx context.Context, data, url string, network [32]byte) (done migrated, err error) {
	switch {
	case c.To == "folder" && url == "":
		return done, inFolderAlready(data)
	case c.To != "folder" && url != "":
		return done, onServerAlready(data)
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
	mark, err := markOf(data)
	if err == nil {
		err = clearOurs(ctx, to, mark)
	}
	if err == nil {
		done, err = copyAll(ctx, from, to, mark)
	}
	if err != nil {
		return done, errors.Join(err, to.Close())
	}
	if err := from.Close(); err != nil {
		return done, errors.Join(err, to.Close())
	}
	if err := noteDatabase(data, url); err != nil { // from here on the server counts
		return done, errors.Join(err, to.Close())
	}
	if err := errors.Join(unmark(ctx, data, to), to.Close()); err != nil {
		return done, err
	}
	old, err := setAside(data)
	done.To, done.Kept = "the server", "The folder's database is kept in "+old+"; remove it when you like."
	return done, err
}

// setAside gives the channel database in a data folder another name, if there is one.
func setAside(data string) (name string, err error) {
	name = filepath.Join(data, fmt.Sprint(channelsFolder, ".before-", time.Now().UTC().Format("20060102-150405.000")))
	if err := os.Rename(filepath.Join(data, channelsFolder), name); !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	return "", nil
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
	if done, err = copyAll(ctx, from, to, ""); err != nil {
		return done, errors.Join(err, to.Close(), os.RemoveAll(part))
	}
	if err := to.Close(); err != nil {
		return done, err
	}
	if _, err := setAside(data); err != nil { // of a migration that was broken off: the server counted
		return done, err
	}
	if err := remote.Rename(part, filepath.Join(data, channelsFolder)); err != nil {
		return done, err
	}
	done.To, done.Kept = "the folder", "The server's tables are kept; remove them with DROP SCHEMA shoal CASCADE when you like."
	return done, remote.Forget(data, remote.DatabaseFile) // from here on the folder counts
}
