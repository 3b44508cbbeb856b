package archive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// What a backup folder holds: the state, the WARC files, and a manifest that is written last.
const (
	backupManifest = "backup.json"
	backupState    = "state.badger"
	backupWARC     = "warc"
)

// ErrNotBackup says that a folder holds no whole backup.
var ErrNotBackup = errors.New("archive: no whole backup")

// ErrNotEmpty says that a restore would overwrite something.
var ErrNotEmpty = errors.New("archive: folder is not empty")

// manifest describes a backup.
type manifest struct {
	Version int              `json:"version"`
	When    time.Time        `json:"when"`
	Files   map[string]int64 `json:"files"` // committed lengths
}

// Backup writes what is durable now into dir, which must not exist. It runs beside everything else. Files that are finished are linked
// where the file system can, so that a backup on the same disk costs little; copy them elsewhere.
func (a *Archive) Backup(ctx context.Context, dir string) (err error) {
	a.upkeep.Lock() // no file may be compacted away meanwhile
	defer a.upkeep.Unlock()
	if err := os.MkdirAll(filepath.Join(dir, ".."), 0o750); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, backupWARC), 0o750); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = writeSynced(filepath.Join(dir, backupState), func(w io.Writer) error {
		_, err := a.db.Backup(w, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("backup of the state: %w", err)
	}
	files, err := a.files(ctx) // not older than the state
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	m := manifest{Version: 1, When: a.cfg.Clock().UTC(), Files: map[string]int64{}}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		f := files[n]
		if err := copyFile(ctx, a.cfg.FS, a.path("warc", f.Name), filepath.Join(dir, backupWARC, f.Name), int64(f.Length), f.Sealed); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		m.Files[f.Name] = int64(f.Length)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = writeSynced(filepath.Join(dir, backupManifest), func(w io.Writer) error { _, err := w.Write(b); return err })
	}
	if err == nil {
		err = errors.Join(warc.OS{}.SyncDir(filepath.Join(dir, backupWARC)), warc.OS{}.SyncDir(dir))
	}
	if err == nil {
		err = a.Scrub(ctx) // what cannot be read is not in the copy
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// Restore makes the archive in dir from a backup. Cursors from before the backup go on; what was told between backup and loss is not
// known any more, so the feed jumps ahead.
func Restore(ctx context.Context, backup, dir string) error {
	b, err := os.ReadFile(filepath.Join(backup, backupManifest))
	if err != nil {
		return fmt.Errorf("restore from %s: %w: %w", backup, ErrNotBackup, err)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil || m.Version != 1 {
		return fmt.Errorf("restore from %s: %w: manifest version %d: %w", backup, ErrNotBackup, m.Version, errors.Join(err))
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) > 0 {
		return fmt.Errorf("restore to %s: %w", dir, ErrNotEmpty)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	for _, d := range []string{"warc", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o750); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	for _, name := range sorted(m.Files) {
		if name != filepath.Base(name) {
			return fmt.Errorf("restore from %s: %w: file %q", backup, ErrNotBackup, name)
		}
		if err := copyFile(ctx, warc.OS{}, filepath.Join(backup, backupWARC, name), filepath.Join(dir, "warc", name), m.Files[name], false); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	db, err := openDB(filepath.Join(dir, "state"), 0, nil)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return errors.Join(restoreState(db, filepath.Join(backup, backupState)), db.Close(), warc.OS{}.SyncDir(filepath.Join(dir, "warc")))
}

func restoreState(db *state, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("restore: %w: %w", ErrNotBackup, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := db.Load(bufio.NewReaderSize(f, 1<<20), 16); err != nil {
		return fmt.Errorf("restore the state: %w", err)
	}
	return db.Update(func(txn *badger.Txn) error {
		var s pb.State
		ok, err := get(txn, []byte{keyState}, &s)
		if err != nil || !ok {
			return fmt.Errorf("restore: %w: no state: %w", ErrNotBackup, errors.Join(err))
		}
		// Nothing may be told under a number that was used after the backup; see firstSeq.
		s.NextSeq = max(s.NextSeq+1, uint64(time.Now().Unix())<<20)
		b, err := encode(&s)
		if err != nil {
			return err
		}
		return txn.Set([]byte{keyState}, b)
	})
}

// writeSynced writes a new file and makes it durable.
func writeSynced(name string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 256<<10)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// copyFile copies the first n bytes of a file of fsys to the operating system's, or links it if it is there too, will not change and is not
// longer.
func copyFile(ctx context.Context, fsys warc.FS, from, to string, n int64, link bool) error {
	if _, same := fsys.(warc.OS); same && link {
		if st, err := os.Stat(from); err == nil && st.Size() == n && os.Link(from, to) == nil {
			return nil
		}
	}
	in, err := fsys.Open(from, false)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	r := io.NewSectionReader(in, 0, n)
	return writeSynced(to, func(w io.Writer) error {
		for left := n; left > 0; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c, err := io.CopyN(w, r, min(left, 16<<20))
			if left -= c; err != nil {
				return fmt.Errorf("copy %s: %d bytes short: %w", from, left, err)
			}
		}
		return nil
	})
}
