package upkeep

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

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/folder"
)

// What a backup folder holds: the ledger, the segments as WARC files, and a manifest that is written last.
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

// Backup writes what is durable now into dir, which must not exist. It runs beside everything else. Sealed segments are linked where the file
// system can, so that a backup on the same disk costs little; copy them elsewhere.
func (u *Upkeep) Backup(ctx context.Context, dir string) error {
	release, err := u.turns.turn(ctx, backingUp) // no segment may be compacted away meanwhile
	if err != nil {
		return err
	}
	defer release()
	if err := u.backup(ctx, dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func (u *Upkeep) backup(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, ".."), 0o750); err != nil {
		return err
	}
	files := filepath.Join(dir, backupWARC)
	if err := os.Mkdir(dir, 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(files, 0o750); err != nil {
		return err
	}
	u.turns.step("copying the database", 0)
	if err := writeSynced(filepath.Join(dir, backupState), u.ledger.CopyStore); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	all, err := u.ledger.Segments(ctx) // not older than the ledger's copy
	if err != nil {
		return err
	}
	u.turns.step("copying files", lengths(all))
	m := manifest{Version: 1, When: u.cfg.Clock().UTC(), Files: map[string]int64{}}
	to := folder.Open(folder.Config{Dir: files})
	for _, s := range all {
		if err := to.Import(ctx, u.segments, s); err != nil {
			return err
		}
		m.Files[s.Name] = int64(s.Length)
		u.turns.did(int64(s.Length))
		u.turns.yield()
	}
	u.turns.step("reading the database", 0)
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(dir, backupManifest), func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
		return err
	}
	if err := firstOf(warc.OS{}.SyncDir(files), warc.OS{}.SyncDir(dir)); err != nil {
		return err
	}
	return u.Scrub(ctx) // records that cannot be read are not in the copy
}

// Restore makes the files of an archive from a backup: segments go to warcDir, the ledger's copy to load. Both must be empty.
func Restore(ctx context.Context, backup, warcDir string, load func(io.Reader) error) error {
	m, err := readManifest(backup)
	if err != nil {
		return fmt.Errorf("restore from %s: %w", backup, err)
	}
	from := folder.Open(folder.Config{Dir: filepath.Join(backup, backupWARC)})
	to := folder.Open(folder.Config{Dir: warcDir})
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		s := segment.Info{Name: name, Length: uint64(m.Files[name])} // not sealed: a restored archive shares no file with its backup
		if err := to.Import(ctx, from, s); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	f, err := os.Open(filepath.Join(backup, backupState))
	if err != nil {
		return fmt.Errorf("restore: %w: %w", ErrNotBackup, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := load(bufio.NewReaderSize(f, 1<<20)); err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	return warc.OS{}.SyncDir(warcDir)
}

func readManifest(backup string) (m manifest, err error) {
	b, err := os.ReadFile(filepath.Join(backup, backupManifest))
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Version != 1 {
		return m, fmt.Errorf("%w: manifest version %d: %w", ErrNotBackup, m.Version, errors.Join(err))
	}
	for name := range m.Files {
		if name != filepath.Base(name) {
			return m, fmt.Errorf("%w: file %q", ErrNotBackup, name)
		}
	}
	return m, nil
}

// Empty says that a folder may be restored to: it is empty, or not there.
func Empty(dir string) error {
	names, err := os.ReadDir(dir)
	if err == nil && len(names) > 0 {
		return ErrNotEmpty
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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
