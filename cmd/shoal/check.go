package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/channel/badgerdb"
	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/internal/wire"
	"shoal/manager/api"
	"shoal/manager/archive/remote"
	"shoal/manager/desk"
)

const (
	leastRoom = 256 << 20 // bytes: below, nothing new is taken
	littleRom = 5 << 30   // bytes: below, an operator should know
)

// errNoRoom says that the disk takes no more.
var errNoRoom = errors.New("the disk is nearly full")

// roomOn is the check that the manager makes now and then: can the data folder take what tasks would bring?
func roomOn(data string) func() error {
	return func() error {
		if free, ok := freeBytes(data); ok && free < leastRoom {
			return fmt.Errorf("%w: %d MB left in %s; make room, and it goes on by itself", errNoRoom, free>>20, data)
		}
		probe := filepath.Join(data, ".writable")
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			return fmt.Errorf("the data folder cannot be written: %w; once it can, it goes on by itself, or ends if a write had failed, for a service to start it again", err)
		}
		if err := os.Remove(probe); !errors.Is(err, fs.ErrNotExist) { // another check may have removed it
			return err
		}
		return nil
	}
}

type checkCmd struct {
	target
}

// errFound makes check end with a failure.
var errFound = errors.New("something must be mended")

func (c *checkCmd) Run(ctx context.Context, s streams) error {
	found, err := c.findings(ctx)
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range found {
		if f.Level == desk.Error {
			bad++
		}
	}
	if c.JSON {
		if err := json.NewEncoder(s.out).Encode(api.Findings{Findings: found}); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			mend := ""
			if f.Mend != "" {
				mend = "\n         " + plain.Printable(f.Mend)
			}
			fmt.Fprintf(s.out, "%-8s %s%s\n", f.Level, plain.Printable(f.What), mend)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d checks failed", errFound, bad, len(found))
	}
	return nil
}

func (c *checkCmd) findings(ctx context.Context) ([]desk.Finding, error) {
	if c.Manager != "" {
		return c.ask(ctx)
	}
	data, err := dataOf(c.Data)
	if err != nil {
		return nil, err
	}
	found := checkData(data, time.Now())
	runs, err := inUse(ctx, data)
	if err != nil {
		return nil, err
	}
	var db database
	if !runs {
		db, err = openDatabase(ctx, data, "", [32]byte{}, nil)
	}
	if runs || errors.Is(err, badgerdb.ErrLocked) {
		more, err := c.ask(ctx)
		if err != nil {
			more = []desk.Finding{{Level: desk.Error, What: "The manager does not answer: " + err.Error(), Mend: "Look into its log; restart it if this lasts."}}
		}
		return merge(found, more), nil
	}
	if err != nil {
		mend := "Mend the folder or its disk, or restore a backup with shoal restore."
		if errors.Is(err, badgerdb.ErrDiskFull) {
			mend = "Delete or move other files of that disk."
		}
		if url, uerr := databaseURL(data); uerr != nil || url != "" {
			mend = "The file " + filepath.Join(data, remote.DatabaseFile) + " names the server; correct it there or with --db if the server has moved."
		}
		if home := clusterOf(data); home != "" {
			mend = "Its servers run while the managers do: start all with " + starts(data)
		}
		return append(found, desk.Finding{Level: desk.Error, What: "The channel database cannot be opened: " + plain.Error(err), Mend: mend}), nil
	}
	stopped := "The manager is stopped: nothing is crawled."
	if s, is := db.(server); is {
		n, archives, err := s.Sharing(ctx)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		if n > 0 {
			stopped = "This manager is stopped; " + plain.Count(n, "other manager") + " of the network have its share of the hosts."
		} else if archives > 0 {
			stopped = "The manager is stopped, and of the network only what stores pages runs (--only archive): nothing is crawled."
		}
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	found = append(found, desk.Finding{Level: desk.OK, What: "the channel database opens"}, checkArchive(ctx, data), desk.Finding{Level: desk.Warning, What: stopped, Mend: "Start it with " + starts(data)})
	return append(found, checkPorts()...), nil
}

// unreached says from where no peer can come to a manager that has these addresses. Where some are there all of them may be within its own network.
func unreached(addrs []string, peers int) (f desk.Finding, cannot bool) {
	var inside []string
	for _, a := range addrs {
		addr, err := ma.NewMultiaddr(a)
		switch {
		case err != nil, manet.IsIPLoopback(addr):
		case !manet.IsPrivateAddr(addr): // a public one, or a name
			return f, false
		default:
			if ip, err := manet.ToIP(addr); err == nil && !slices.Contains(inside, ip.String()) {
				inside = append(inside, ip.String())
			}
		}
	}
	f.Level = desk.Warning
	switch {
	case len(inside) == 0:
		f.What = "Peers on other machines cannot reach this manager: it listens on loopback only."
		f.Mend = fmt.Sprintf("Start it with --listen /ip4/0.0.0.0/tcp/%d, and --announce with the address that is seen from outside.", wire.DefaultPort)
	case peers == 0:
		f.What = "Peers elsewhere cannot reach this manager: all addresses that it knows of itself are private (" + strings.Join(inside, ", ") + ")."
		f.Mend = fmt.Sprintf("Forward TCP and UDP port %d to it, and start it with --announce and the address that is seen from outside. If all peers are in its own network, all is well.", wire.DefaultPort)
	}
	return f, f.What != ""
}

// starts is the command that goes on with a data folder: those that shoal up made lie in a folder that it is told.
func starts(data string) string {
	if home := clusterOf(data); home != "" {
		return "shoal up --cluster N --data " + home
	}
	switch home, name := filepath.Split(filepath.Clean(data)); name {
	case upPond:
		return "shoal up --data " + filepath.Clean(home)
	case upWeb:
		return "shoal up SITES --data " + filepath.Clean(home)
	}
	return "shoal manager --data " + data
}

// clusterOf is the folder that `shoal up --cluster` was told, if a data folder is of one of its managers.
func clusterOf(data string) string {
	if home, name := filepath.Split(filepath.Dir(filepath.Clean(data))); name == upCluster {
		return filepath.Clean(home)
	}
	return ""
}

// checkArchive looks at a stopped manager's archive.
func checkArchive(ctx context.Context, data string) desk.Finding {
	dir := filepath.Join(data, "archive")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return desk.Finding{Level: desk.Warning, What: "There is no archive in " + dir + " yet.", Mend: "The manager makes one when it starts."}
	}
	a, err := openStopped(ctx, data)
	if err != nil {
		mend := "Mend the folder or its disk, restore a backup, or see shoal archive repair --help."
		if url, nerr := remote.Noted(data, remote.BucketFile); nerr != nil || url != "" {
			mend = fmt.Sprintf("The files %s and %s in %s name the servers; correct them there, or with --db and --bucket if a server has moved.", remote.DatabaseFile, remote.BucketFile, data)
		}
		return desk.Finding{Level: desk.Error, What: "The archive cannot be opened: " + plain.Error(err), Mend: mend}
	}
	missing := a.Missing()
	if err := a.Close(); err != nil {
		return desk.Finding{Level: desk.Error, What: "The archive cannot be closed: " + plain.Error(err)}
	}
	if missing > 0 {
		return filesMissing(missing)
	}
	return desk.Finding{Level: desk.OK, What: "the archive opens"}
}

func filesMissing(n int) desk.Finding {
	return desk.Finding{Level: desk.Error, What: fmt.Sprintf("%d of the archive's WARC files are missing or too short.", n),
		Mend: "Bring them back; or shoal archive verify names what is lost, and shoal archive repair forgets it, for the next crawls to fetch."}
}

// merge leaves out what the running manager has found too.
func merge(a, b []desk.Finding) []desk.Finding {
	seen := map[string]bool{}
	for _, f := range a {
		seen[f.What] = true
	}
	for _, f := range b {
		if !seen[f.What] {
			a = append(a, f)
		}
	}
	return a
}

func (c *checkCmd) ask(ctx context.Context) ([]desk.Finding, error) {
	var out api.Findings
	err := c.client(ctx, true, func(a *api.Client) error { return a.Do(ctx, http.MethodGet, "/check", nil, nil, &out) })
	return out.Findings, err
}

// checks are what a running station finds outside of its manager.
func (st *station) checks(context.Context) []desk.Finding {
	var found []desk.Finding
	if st.others != nil { // first what happens now: the banner shows one line
		st.publishing.Lock()
		found = append(st.others.unowned(time.Now()), st.others.missing()...)
		st.publishing.Unlock()
	}
	found = append(append(found, checkData(st.cfg.data, time.Now())...), st.releases.lacking()...)
	if f, is := newerKey(st.keys, time.Now()); is {
		found = append(found, f)
	}
	if n := st.archive.Missing(); n > 0 {
		found = append(found, filesMissing(n))
	}
	if f, cannot := unreached(st.node.Addrs(), len(st.swarm.View().Peers)); cannot {
		found = append(found, f)
	}
	if f, tells := st.cfg.anew.finding(time.Now()); tells {
		found = append(found, f)
	}
	if st.others != nil {
		st.publishing.Lock()
		old, stolen := st.others.outdated(), st.others.stolen
		st.publishing.Unlock()
		if stolen > 0 && len(old) > 0 {
			found = append(found, desk.Finding{Level: desk.Error, What: fmt.Sprintf("A working key was stolen, and still counts: the managers on %s have keys as old as that.", strings.Join(old, ", ")),
				Mend: "They get new ones by themselves where root.key is in their data folders: put it there, then run shoal key rotate, and start them again."})
		}
	}
	if off := time.Until(st.node.Now()); off > maxOff || off < -maxOff {
		found = append(found, desk.Finding{Level: desk.Error, What: fmt.Sprintf("The clock is %s off the network's.", plain.Span(off.Abs())), Mend: "Set the clock; run NTP."})
	}
	return found
}

// newerKey is what to say where the data folder has a newer working key than those with which this manager works.
func newerKey(k *member.Keys, now time.Time) (f desk.Finding, is bool) {
	if _, err := os.Stat(k.Dir); err != nil {
		return f, false // checkData says so
	}
	disk, err := member.LoadOrCreate(k.Dir, now)
	if err != nil {
		return f, false // checkData says so
	}
	mine, newer := k.Authority.Delegation(), disk.Authority.Delegation()
	if newer.Serial <= mine.Serial || newer.Key == mine.Key {
		return f, false
	}
	f = desk.Finding{Level: desk.Warning, What: fmt.Sprintf("A newer working key (serial %d) is in the data folder; this manager goes on with serial %d.", newer.Serial, mine.Serial), Mend: "Start the manager again."}
	if disk.Stolen >= mine.Serial {
		f.Level = desk.Error
		f.What = fmt.Sprintf("The working key that was stolen (serial %d) still counts: this manager works with it.", mine.Serial)
		f.Mend = "Start the manager again now: from then on only the new key counts."
	}
	return f, true
}

const maxOff = time.Minute

// checkData looks at a data folder.
func checkData(data string, now time.Time) []desk.Finding {
	var out []desk.Finding
	add := func(level, what, mend string) {
		out = append(out, desk.Finding{Level: level, What: what, Mend: mend})
	}
	if err := roomOn(data)(); err != nil {
		add(desk.Error, err.Error(), "")
	} else if free, ok := freeBytes(data); ok && free < littleRom {
		add(desk.Warning, fmt.Sprintf("%.1f GB are left on the disk of %s.", float64(free)/1e9, data), "Make room, or let shoal archive compact forget old versions.")
	} else {
		add(desk.OK, fmt.Sprintf("data in %s, %.0f GB free", data, float64(free)/1e9), "")
	}
	if info, err := os.Stat(data); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		add(desk.Warning, fmt.Sprintf("Others on this machine may read %s.", data), "chmod 700 "+data)
	}
	checkKeys(data, now, add)
	if left := unmoved(data); len(left) > 0 {
		add(desk.Warning, fmt.Sprintf("A migration runs, or one was broken off: it has %s in %s.", strings.Join(left, " and "), data),
			"If none runs, run it again, and it goes on from there; or remove what it has left, if the data is to stay where it is.")
	}
	if newest, at := newestFile(data); newest.After(now.Add(maxOff)) {
		add(desk.Error, fmt.Sprintf("The clock was %s ahead of now when %s was written, or is behind.", plain.Span(newest.Sub(now)), at), "Set the clock; run NTP.")
	}
	return out
}

// unmoved are the names of what a migration has in a data folder until it ends.
func unmoved(data string) (names []string) {
	for _, pattern := range []string{"archive.part", channelsFolder + ".part", "migrate-*"} {
		if found, err := fs.Glob(os.DirFS(data), pattern); err == nil { // the patterns are right
			names = append(names, found...)
		}
	}
	return names
}

func checkKeys(data string, now time.Time, add func(level, what, mend string)) {
	dir := filepath.Join(data, "keys")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		add(desk.Error, "There are no keys in "+dir+".", "Restore them with shoal key restore: without them the network cannot go on.")
		return
	}
	k, err := member.LoadOrCreate(dir, now)
	if err != nil {
		add(desk.Error, "The keys cannot be used: "+err.Error(), "Restore them with shoal key restore.")
		return
	}
	if left := k.Authority.Delegation().NotAfter.Sub(now); left < 14*24*time.Hour {
		add(desk.Error, fmt.Sprintf("The working key ends in %s.", plain.Span(left)), "shoal key rotate")
	}
	lies := func(name string) bool {
		_, err := os.Stat(filepath.Join(data, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	switch {
	case lies(backupStamp):
		add(desk.OK, "keys are backed up", "")
	case lies(pondMark): // nothing is lost with the keys of a network that crawls a pond
	default:
		add(desk.Warning, "The network's keys were never backed up: with this disk the network is lost.", "shoal key backup --out FILE, and keep FILE elsewhere.")
	}
}

// backupStamp is written when the keys were backed up.
const backupStamp = "keys-backed-up"

// newestFile is the latest change in the top of a folder.
func newestFile(dir string) (newest time.Time, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return newest, ""
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(newest) {
			newest, name = info.ModTime(), e.Name()
		}
	}
	return newest, name
}

// checkPorts tries the ports that a manager would listen on.
func checkPorts() (out []desk.Finding) {
	for _, p := range []struct{ addr, flag string }{{fmt.Sprintf(":%d", wire.DefaultPort), "--listen"}, {"127.0.0.1:7780", "--page"}} {
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			out = append(out, desk.Finding{Level: desk.Warning, What: fmt.Sprintf("Port %s is taken: %v.", p.addr, err), Mend: "Stop what listens there, or choose another one with " + p.flag + "."})
			continue
		}
		if err := l.Close(); err == nil {
			out = append(out, desk.Finding{Level: desk.OK, What: "port " + p.addr + " is free"})
		}
	}
	return out
}
