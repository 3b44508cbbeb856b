//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// giveBack gives what root has left in a data folder to the folder's owner. Under a service the manager runs as a user of its own: it could not read what a
// command that root has run there made, and would not start again. A folder without a network's keys is none of a manager's, and stays as it is; so do other disks below
// it, and files that have another name elsewhere. No link is followed.
func giveBack(dir string) error {
	if os.Geteuid() != 0 || dir == "" {
		return nil
	}
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 || !st.IsDir() {
		return nil
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(at, "keys", "manager.key")); err != nil {
		return nil
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		its, ok := info.Sys().(*syscall.Stat_t)
		if ok && its.Dev != owner.Dev && d.IsDir() {
			return fs.SkipDir
		}
		if ok && its.Uid == 0 && its.Dev == owner.Dev && (d.IsDir() || d.Type().IsRegular() && its.Nlink == 1) {
			err = root.Lchown(name, int(owner.Uid), int(owner.Gid))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("some files in %s belong to root now, which its owner may not read: chown -R %d:%d %s (%w)", dir, owner.Uid, owner.Gid, dir, err)
	}
	return nil
}
