package peer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
)

// A computer that crawls for one network has its membership in the data folder itself. Those for further networks have folders of their own
// below it, each with an identity of its own, so that networks cannot tell from it that they share a computer.
const networksFolder = "networks"

// MaxNetworks bounds the networks of one computer.
const MaxNetworks = 8

// Membership is a folder that is a network's member.
type Membership struct {
	Dir     string
	Network member.NetworkID
	Company string // as it calls itself; empty: it has not said so
}

// Memberships lists the networks of a data folder: first the one in the folder itself, then the others in the order of their names. Beside an error it
// lists those that can be read: one that is damaged must not keep the others from being crawled for.
func Memberships(data string) (out []Membership, err error) {
	dirs := []string{data}
	further, err := os.ReadDir(filepath.Join(data, networksFolder))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	for _, e := range further {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(data, networksFolder, e.Name()))
		}
	}
	for _, dir := range dirs {
		kept, bad := wire.LoadKept(dir)
		if errors.Is(bad, wire.ErrNotJoined) {
			continue
		}
		var n member.NetworkID
		if bad == nil {
			n, bad = kept.Network()
		}
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		if !slices.ContainsFunc(out, func(m Membership) bool { return m.Network == n }) { // a copy by hand counts once
			m := Membership{Dir: dir, Network: n}
			if d, err := member.ReadDocument(kept.Document); err == nil {
				m.Company = d.Name
			}
			out = append(out, m)
		}
	}
	return out, err
}

// FolderFor returns the folder of a data folder in which a network is joined: its own where it is a member, the data folder itself where there
// is no network yet, and else one below it.
func FolderFor(data string, n member.NetworkID) (dir string, is bool, err error) {
	all, err := Memberships(data)
	if err != nil {
		return "", false, err
	}
	for _, m := range all {
		if m.Network == n {
			return m.Dir, true, nil
		}
	}
	below := filepath.Join(data, networksFolder, n.String())
	if _, err := os.Stat(below); err == nil || len(all) > 0 { // it was there before: its identity is the network's
		return below, false, nil
	}
	return data, false, nil
}

// IsMember reports whether a data folder is a member of a network.
func IsMember(data string) (bool, error) {
	all, err := Memberships(data)
	if len(all) > 0 {
		return true, nil
	}
	return false, err
}

// Oldest returns the network that a data folder has been a member of longest, and whether there is one: the network in the folder itself, since others are
// joined only beside it; without it the one that an earlier call has returned and whose name is given, as long as it is a member; else the one whose key is
// oldest, which joining dates. It returns an error where the answer may be a membership that cannot be read.
func Oldest(data, before string) (m Membership, ok bool, err error) {
	if _, err := wire.LoadKept(data); err != nil && !errors.Is(err, wire.ErrNotJoined) {
		return m, false, err
	}
	all, err := Memberships(data)
	if len(all) > 0 && all[0].Dir == data {
		return all[0], true, nil
	}
	if i := slices.IndexFunc(all, func(m Membership) bool { return m.Network.String() == before }); i >= 0 {
		return all[i], true, nil
	}
	if err != nil || len(all) == 0 {
		return m, false, err
	}
	made := func(m Membership) time.Time {
		info, err := os.Stat(filepath.Join(m.Dir, "node.key"))
		if err != nil {
			return time.Now() // it will be made when the peer begins
		}
		return info.ModTime()
	}
	return slices.MinFunc(all, func(a, b Membership) int { return made(a).Compare(made(b)) }), true, nil
}
