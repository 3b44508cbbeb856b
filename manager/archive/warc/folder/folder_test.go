package folder

import (
	"errors"
	"os"
	"testing"
	"time"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/warctest"
)

// failing is a disk whose next sync fails.
type failing struct {
	warc.OS
	fail bool
}

type failingFile struct {
	warc.File
	disk *failing
}

func (d *failing) Open(name string, create bool) (warc.File, error) {
	f, err := d.OS.Open(name, create)
	return failingFile{f, d}, err
}

func (f failingFile) Sync() error {
	if f.disk.fail {
		f.disk.fail = false
		return errors.New("test: sync failed")
	}
	return f.File.Sync()
}

func TestContract(t *testing.T) {
	warctest.RunStore(t, func(t *testing.T) warctest.Subject {
		disk := &failing{}
		pack, err := warc.NewCompressor(1)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{FS: disk, Dir: t.TempDir(), Roll: 10_000, First: func(name string, id uint32, at time.Time) ([]byte, error) {
			return pack.Append(nil, &warc.Record{Type: warc.Info, ID: warc.NewID([32]byte{}, int(id)), Date: at, Filename: name})
		}}
		s := Open(cfg)
		t.Cleanup(func() { _ = s.Close() })
		return warctest.Subject{Store: s, Roll: int(cfg.Roll), FailSync: func() { disk.fail = true }, Reopen: func(t *testing.T, crash bool) segment.Store {
			if !crash { // else it is left as it is: a file system keeps what it was handed
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s = Open(cfg)
			t.Cleanup(func() { _ = s.Close() })
			return s
		}}
	})
}

// Files that are not the archive's are left alone; one of the archive's that is not named as its files are is no reason to remove it.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(dir+"/"+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt")
	f := Open(Config{Dir: dir})
	if list, err := f.List(); err != nil || len(list) > 0 {
		t.Errorf("list %v, %v", list, err)
	}
	if _, err := f.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/notes.txt"); err != nil {
		t.Error(err)
	}
	write("something.warc.gz")
	if _, err := f.List(); err == nil {
		t.Error("a file of another name was listed")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if id, created := parse(nameOf(at, 123456)); id != 123456 || !created.Equal(at) {
		t.Errorf("a name comes back as %d of %v", id, created)
	}
	if _, err := f.open("../x.warc.gz"); !errors.Is(err, segment.ErrNone) {
		t.Errorf("a name that leads elsewhere: %v", err)
	}
}
