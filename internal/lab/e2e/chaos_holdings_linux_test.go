package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/lab/judge"
)

// chaosReturned is how long processes may take, once all is calm, until they hold no more than before: what they were told in the last minute is still being done.
const chaosReturned = 2 * time.Minute

// returned waits until each process was seen to hold no more than it may, and has the judge judge what the others hold then. Not all need be so at once: a crawl
// may fill a peer's disk up to its bound while the archive is busy.
func (c *chaosRun) returned(before map[string]judge.Holdings) {
	c.t.Helper()
	well := map[string]bool{}
	var after map[string]judge.Holdings
	for over := c.own.bound(chaosReturned); ; time.Sleep(c.rest()) {
		c.alive()
		after = c.holdings()
		for name, h := range after {
			well[name] = well[name] || len(judge.Exceeds(before[name], h)) == 0
		}
		if !slices.Contains(slices.Collect(maps.Values(well)), false) || over() {
			break
		}
		c.look()
	}
	for name, h := range after {
		if !well[name] {
			c.judge.Returned(name, before[name], h)
		}
	}
	c.t.Logf("held when all was calm and at the end: the manager %+v and %+v; the peers together %+v and %+v", before["manager"], after["manager"], ofPeers(before), ofPeers(after))
}

// ofPeers is what all peers hold together.
func ofPeers(all map[string]judge.Holdings) (sum judge.Holdings) {
	for name, h := range all {
		if name != "manager" {
			sum.Bytes += h.Bytes
			sum.Descriptors += h.Descriptors
			sum.Goroutines += h.Goroutines
			sum.Files += h.Files
			sum.Disk += h.Disk
		}
	}
	return sum
}

// holdings is what each process holds: by the kernel's word, the manager's metrics, and what the harness has added to the peers' programs.
func (c *chaosRun) holdings() map[string]judge.Holdings {
	c.t.Helper()
	m, err := c.judge.Holdings(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	// The archive and the channels are what is stored, and grow with it. So do the files of theirs that are open, and what is mapped of them. Nothing else may.
	m.Files, m.Disk = folder(c.data(), "archive", "channels")
	c.t.Logf("the manager has %.0f MiB of memory with all that it maps, and %.0f descriptors", m.Bytes/(1<<20), m.Descriptors)
	m.Bytes, m.Descriptors = c.ownMemory(), c.ownDescriptors("archive", "channels")
	all := map[string]judge.Holdings{"manager": m}
	for i, p := range c.peers {
		proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
		fds, err := os.ReadDir(proc + "fd")
		if err != nil {
			c.t.Fatal(err)
		}
		statm, err := os.ReadFile(proc + "statm")
		if err != nil {
			c.t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
		if err != nil {
			c.t.Fatal(err)
		}
		h := judge.Holdings{Bytes: float64(pages * os.Getpagesize()), Descriptors: float64(len(fds)), Goroutines: float64(c.clocks[i].Goroutines())}
		h.Files, h.Disk = folder(c.dirs[i])
		all[fmt.Sprint("peer ", i)] = h
	}
	return all
}

// ownMemory is the manager's memory that is no file's.
func (c *chaosRun) ownMemory() (bytes float64) {
	c.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.manager.cmd.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); f[0] == "RssAnon:" || f[0] == "RssShmem:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				c.t.Fatal(err)
			}
			bytes += float64(kib << 10)
		}
	}
	if bytes == 0 {
		c.t.Fatalf("the kernel tells no memory of the manager: %s", status)
	}
	return bytes
}

// ownDescriptors counts what the manager has open, without the files that are in some of its folders. A file that is removed is in none.
func (c *chaosRun) ownDescriptors(without ...string) (n float64) {
	c.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", c.manager.cmd.Process.Pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		stored := err == nil && !strings.HasSuffix(to, " (deleted)") && slices.ContainsFunc(without, func(w string) bool {
			return strings.HasPrefix(to, filepath.Join(c.data(), w)+string(filepath.Separator))
		})
		if err == nil && !stored { // else it is closed by now
			n++
		}
	}
	return n
}

// folder counts what is in a folder, and how many bytes, without some of the folders in it.
func folder(dir string, without ...string) (files, bytes float64) {
	_ = filepath.WalkDir(dir, func(path string, f os.DirEntry, err error) error { // files come and go meanwhile
		if err != nil {
			return nil
		}
		if f.IsDir() && slices.ContainsFunc(without, func(w string) bool { return path == filepath.Join(dir, w) }) {
			return filepath.SkipDir
		}
		if info, err := f.Info(); err == nil {
			files, bytes = files+1, bytes+float64(info.Size())
		}
		return nil
	})
	return files, bytes
}
