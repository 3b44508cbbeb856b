package tables

import "time"

// lingers is how long Released waits at most: another process may have opened the database meanwhile.
const lingers = 5 * time.Second

// Released waits until the lock of a database that was closed is free. A child process that is being started has copies of this process's files until it
// runs its program, and Badger's lock is held while a copy of its file is open.
func Released(dir string) {
	for end := time.Now().Add(lingers); inUse(dir) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
