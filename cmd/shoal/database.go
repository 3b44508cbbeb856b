package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/postgres"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/remote"
)

// database is a manager's channel database, wherever it lies.
type database interface {
	manager.Store
	Dump(ctx context.Context, f func(channel.Item) error) error
	Load(ctx context.Context, items iter.Seq2[channel.Item, error]) error
	// CopyTo writes a copy into a new folder, which then is a channel database by itself.
	CopyTo(ctx context.Context, dir string) error
	// Scrub reads everything, to find what cannot be read.
	Scrub(ctx context.Context) error
	// Damaged is what Scrub or another read found. Broken reports whether nothing can be written until a new start.
	Damaged() error
	Broken() bool
}

// channelsFolder is below the data folder: the channel database, where it is a folder.
const channelsFolder = "channels"

// databaseURL is the server that holds the channels of a data folder; "" if the folder does.
func databaseURL(data string) (string, error) { return remote.Noted(data, remote.DatabaseFile) }

// noteDatabase makes a data folder remember its server. The URL may hold a password.
func noteDatabase(data, url string) error { return remote.Note(data, remote.DatabaseFile, url) }

// openDatabase opens the channel database of a data folder: on the server that url names, on the one that the folder
// remembers, or in the folder.
func openDatabase(ctx context.Context, data, url string, network [32]byte, log *slog.Logger) (database, error) {
	noted, err := databaseURL(data)
	if err != nil {
		return nil, err
	}
	if url != "" && noted == "" {
		if _, err := os.Stat(filepath.Join(data, channelsFolder)); err == nil {
			return nil, fmt.Errorf("the channels of %s lie in its folder: move them with `shoal migrate --data %s --to URL`, then leave --db out", data, data)
		}
	}
	if url == "" {
		url = noted
	}
	if url == "" {
		cfg := badgerdb.Default(filepath.Join(data, channelsFolder))
		cfg.Network, cfg.Log = network, log
		db, err := badgerdb.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return db, nil
	}
	cfg := postgres.Default(url)
	cfg.Network, cfg.Log = network, log
	db, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if url != noted {
		if err := noteDatabase(data, url); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return server{db}, nil
}

// checkPlaces looks whether a manager may work where its flags say: on a server and in a bucket, or in the data folder. It changes nothing.
func checkPlaces(ctx context.Context, cfg *stationConfig, network [32]byte) error {
	p, err := placeOf(cfg, network)
	if err != nil || p == nil {
		return err
	}
	if err := checkBucket(ctx, cfg, network); err != nil {
		return err
	}
	return p.Check(ctx) // before anything is made in the database: it may have to be restored
}

// checkBucket looks at a bucket that a flag names.
func checkBucket(ctx context.Context, cfg *stationConfig, network [32]byte) error {
	if cfg.bucket == "" {
		return nil
	}
	noted, err := remote.Noted(cfg.data, remote.BucketFile)
	if err != nil {
		return err
	}
	db, err := databaseURL(cfg.data)
	if err != nil {
		return err
	}
	if db == "" && cfg.db == "" {
		return errors.New("--bucket needs --db: the archive keeps in PostgreSQL what is in the bucket")
	}
	if noted == "" {
		if _, err := os.Stat(filepath.Join(cfg.data, "archive", "state")); err == nil {
			return fmt.Errorf("the archive of %s lies in its folder: move it with `shoal migrate --data %s --to URL --bucket URL`, then leave --db and --bucket out", cfg.data, cfg.data)
		}
	}
	return bucket.Look(ctx, bucket.Config{URL: cfg.bucket, Network: network})
}

// archivePlace completes the configuration of a manager's archive: in the bucket that its flag names, or where the data folder says.
func archivePlace(cfg *stationConfig, network [32]byte, writer string, a archive.Config) (archive.Config, error) {
	p, err := placeOf(cfg, network)
	if note := idleFlags(cfg, p); err == nil && note != "" {
		cfg.log.Warn(note)
	}
	if err != nil || p == nil {
		return a, err
	}
	if writer != "" {
		p.Writer = writer
	}
	return p.Config(a), nil
}

// idleFlags says which flags of a manager do nothing where its archive is.
func idleFlags(cfg *stationConfig, p *remote.Place) string {
	if p == nil && cfg.strays > 0 {
		return "--strays does nothing: the archive is in the data folder, and strays are objects of a bucket"
	}
	return ""
}

// placeOf is where the flags of a manager say that its archive is, or its data folder; nil: in the folder.
func placeOf(cfg *stationConfig, network [32]byte) (*remote.Place, error) {
	p := remote.Place{DB: cfg.db, Bucket: cfg.bucket, Network: network, Log: cfg.log}
	var err error
	if p.Bucket == "" {
		if p.Bucket, err = remote.Noted(cfg.data, remote.BucketFile); err != nil || p.Bucket == "" {
			return nil, err
		}
	}
	if p.DB == "" {
		if p.DB, err = databaseURL(cfg.data); err != nil {
			return nil, err
		}
	}
	if p.DB == "" && cfg.bucket == "" {
		_, err = remote.Of(cfg.data) // says what is missing
	}
	return &p, err
}

// errNoArchive is returned where no archive was made yet.
var errNoArchive = errors.New("there is no archive")

// openStopped opens the archive of a stopped manager, wherever it lies. It makes none: a manager that starts in this moment may be about to, elsewhere.
func openStopped(ctx context.Context, data string) (*archive.Archive, error) {
	noted, err := remote.Noted(data, remote.BucketFile)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(data, "archive")
	if _, err := os.Stat(filepath.Join(dir, "state")); noted == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s yet: `shoal manager` makes it", errNoArchive, data)
	}
	cfg, err := remote.Config(data, archive.Config{Dir: dir, Verify: noTasks})
	if err != nil {
		return nil, err
	}
	return archive.Open(ctx, cfg)
}

// inUse reports whether a manager, or another command, works on a data folder.
func inUse(ctx context.Context, data string) (bool, error) {
	if _, err := os.Stat(filepath.Join(data, "archive")); err != nil {
		return false, nil
	}
	a, err := openStopped(ctx, data)
	if err == nil {
		return false, a.Close()
	}
	return errors.Is(err, archive.ErrLocked), nil // what else is wrong with it is told elsewhere
}

// server is a channel database on a server.
type server struct{ *postgres.DB }

// CopyTo implements database. A backup is a folder whatever it is a backup of, so that it can be restored without the
// server.
func (s server) CopyTo(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	to, err := badgerdb.Open(ctx, badgerdb.Default(dir))
	if err != nil {
		return err
	}
	return errors.Join(to.Load(ctx, dumped(ctx, s)), to.Close())
}

// Scrub implements database.
func (s server) Scrub(ctx context.Context) error {
	return s.Dump(ctx, func(channel.Item) error { return nil })
}

// Damaged implements database: the server itself looks after its disk.
func (s server) Damaged() error { return nil }

// Broken implements database: a write that fails leaves nothing in doubt.
func (s server) Broken() bool { return false }

// dumped are the items of a database.
func dumped(ctx context.Context, db database) iter.Seq2[channel.Item, error] {
	return func(yield func(channel.Item, error) bool) {
		enough := errors.New("enough")
		err := db.Dump(ctx, func(it channel.Item) error {
			if !yield(it, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(channel.Item{}, err)
		}
	}
}

// isDamaged reports whether an error says that a channel database holds what cannot be read.
func isDamaged(err error) bool {
	return errors.Is(err, badgerdb.ErrDamaged) || errors.Is(err, postgres.ErrDamaged)
}

// copyServer copies the channels of a stopped manager into a folder, if they are on a server.
func copyServer(ctx context.Context, data, dir string) (err error) {
	url, err := databaseURL(data)
	if err != nil || url == "" {
		return err
	}
	db, err := openDatabase(ctx, data, "", [32]byte{}, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.CopyTo(ctx, dir), db.Close())
}
