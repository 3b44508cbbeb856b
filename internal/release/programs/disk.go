package programs

import (
	"os"
	"runtime"
)

// system is the system's own file system.
type system struct{}

// Create implements disk. What is created may be run.
func (system) Create(name string) (file, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700)
}

// Append implements disk.
func (system) Append(name string) (file, error) {
	return os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
}

// Rename implements disk. On Windows too it replaces what is there, unless that runs.
func (system) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements disk.
func (system) Remove(name string) error { return os.Remove(name) }

// SyncDir implements disk.
func (system) SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // which cannot sync a folder
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
