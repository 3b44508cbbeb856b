package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/member"
	"shoal/internal/wire"
)

// members admits and refuses volunteers. Who is refused, and how often each invite was used, is kept in the data folder.
type members struct {
	dir    string
	issuer *member.Issuer

	mu   sync.Mutex // guards what follows
	kept bannedFile
}

// What the data folder holds of it.
const (
	bannedName = "banned.json"
	ledgerName = "invites.ledger"

	// banTold is how long the network document names a ban. After that no certificate of before it is good, and none was issued since.
	banTold = member.CertificateLife + 2*member.Skew
	// prefixHold is how long no peer may join from the address prefix of a banned member.
	prefixHold = time.Hour
)

// bannedFile is the file of those who are refused. Before version 0.2 it was a list of names.
type bannedFile struct {
	Version int      `json:"version"`
	Banned  []banned `json:"banned"`
}

// banned is one of them: a peer, or all of an account.
type banned struct {
	Name     string    `json:"name"`
	Since    time.Time `json:"since"`
	Prefixes []string  `json:"prefixes,omitempty"` // the address prefixes that it had; no peer may join from there for a time
	Told     bool      `json:"told,omitempty"`     // to the other managers of the network
}

// openMembers reads what an earlier run has kept.
func openMembers(dir string, issuer *member.Issuer, now time.Time) (*members, error) {
	m := &members{dir: dir, issuer: issuer}
	if err := m.readBanned(); err != nil {
		return nil, err
	}
	for _, b := range m.kept.Banned {
		if err := m.deny(b, now); err != nil {
			return nil, err
		}
	}
	ledger, err := os.ReadFile(filepath.Join(dir, ledgerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read how often invites were used: %w", err)
	}
	if err := issuer.Restore(ledger); err != nil {
		return nil, fmt.Errorf("read how often invites were used: %w; restore %s from a backup, or remove it, after which invites that are used up work once more", err, ledgerName)
	}
	issuer.KeepLedger(func(ledger []byte) error { return member.WriteFile(filepath.Join(dir, ledgerName), ledger) })
	return m, nil
}

func (m *members) readBanned() error {
	b, err := os.ReadFile(filepath.Join(m.dir, bannedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && strings.HasPrefix(strings.TrimSpace(string(b)), "[") {
		var names []string
		err = json.Unmarshal(b, &names)
		for _, n := range names {
			m.kept.Banned = append(m.kept.Banned, banned{Name: n})
		}
	} else if err == nil {
		err = json.Unmarshal(b, &m.kept)
	}
	if err != nil {
		return fmt.Errorf("read who is banned: %w; mend or remove %s", err, bannedName)
	}
	return nil
}

// deny has the issuer refuse.
func (m *members) deny(b banned, now time.Time) error {
	if err := m.issuer.Deny(b.Name, true); err != nil {
		return err
	}
	for _, p := range b.Prefixes {
		m.issuer.HoldPrefix(p, now, b.Since.Add(prefixHold))
	}
	return nil
}

// told are the bans that the network document has to name, the newest first.
func (m *members) told(now time.Time) []member.Ban {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []member.Ban
	for _, b := range slices.Backward(m.kept.Banned) {
		if now.Before(b.Since.Add(banTold)) && len(out) < member.MaxBanned {
			out = append(out, member.BanOf(b.Name))
		}
	}
	return out
}

// all is what the file holds.
func (m *members) all() bannedFile {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bannedFile{Version: 2, Banned: slices.Clone(m.kept.Banned)}
}

// list are those who are refused.
func (m *members) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for _, b := range m.kept.Banned {
		out = append(out, b.Name)
	}
	return out
}

// outlaws are those who are refused, peers as the archive names them.
func (m *members) outlaws() []string {
	names := m.list()
	for i, name := range names {
		if id, err := peer.Decode(name); err == nil {
			names[i] = id.String()
		}
	}
	return names
}

// set bans, or forgives, and keeps that.
func (m *members) set(name string, refuse bool, prefixes []string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := bannedFile{Version: 2}
	for _, b := range m.kept.Banned {
		if b.Name != name {
			next.Banned = append(next.Banned, b)
			continue
		}
		for _, p := range b.Prefixes { // forgiven, or banned once more from now on
			m.issuer.HoldPrefix(p, now, now)
		}
	}
	if refuse {
		b := banned{Name: name, Since: now, Prefixes: prefixes}
		if err := m.deny(b, now); err != nil {
			return err
		}
		next.Banned = append(next.Banned, b)
	} else if err := m.issuer.Deny(name, false); err != nil {
		return err
	}
	return m.write(next)
}

// write keeps what is to be kept. Called under the lock.
func (m *members) write(next bannedFile) error {
	b, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := member.WriteFile(filepath.Join(m.dir, bannedName), append(b, '\n')); err != nil {
		return fmt.Errorf("keep who is banned: %w", err)
	}
	m.kept = next
	return nil
}

// noteTold notes which bans the other managers know.
func (m *members) noteTold(names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, changed := bannedFile{Version: 2, Banned: slices.Clone(m.kept.Banned)}, false
	for i := range next.Banned {
		if b := &next.Banned[i]; !b.Told && slices.Contains(names, b.Name) {
			b.Told, changed = true, true
		}
	}
	if !changed {
		return nil
	}
	return m.write(next)
}

// join takes in the bans that other managers keep. What they were told of, and keep no more, was forgiven.
func (m *members) join(theirs []banned, now time.Time) error {
	named := func(list []banned, name string) bool {
		return slices.ContainsFunc(list, func(b banned) bool { return b.Name == name })
	}
	ours := m.all().Banned
	var known []string
	for _, b := range theirs {
		if !named(ours, b.Name) {
			if err := m.set(b.Name, true, b.Prefixes, b.Since); err != nil {
				return err
			}
		}
		known = append(known, b.Name)
	}
	for _, b := range ours {
		if b.Told && !named(theirs, b.Name) {
			if err := m.set(b.Name, false, nil, now); err != nil {
				return err
			}
		}
	}
	return m.noteTold(known...)
}

// desk is what an operator can do about members.
type membersDesk struct{ st *station }

// Invite makes a join string with an invite for a number of joins.
func (d *membersDesk) Invite(uses uint32) (string, error) { return d.st.invite(time.Now(), uses) }

// Banned are those who are refused.
func (d *membersDesk) Banned() []string { return d.st.members.list() }

// Ban ends the membership of a peer, or of all peers of an account, at once. The member is refused, and its
// connections close here and wherever the network document arrives. What it has claimed is free again, and for a time
// no peer may join from its address prefix. If banned is false, Ban forgives.
func (d *membersDesk) Ban(name string, banned bool) error {
	if banned && len(d.st.barred(name)) == 0 {
		if err := onlyLabel(name, d.st.node.Members(func(wire.Member) bool { return true })); err != nil {
			return err
		}
	}
	return d.st.sentence(name, banned)
}

// sentence ends the membership of a peer or an account for what was delivered, or gives it back.
func (st *station) sentence(name string, barred bool) error {
	return st.bar(bannedNote{Name: name, Refuse: barred, At: time.Now()})
}

// onlyLabel refuses a name that members have chosen, which says nothing of who they are. What is a peer's id or an invite's account is meant as that, whoever has
// chosen it for a name.
func onlyLabel(name string, members []wire.Connected) error {
	if _, err := peer.Decode(name); err == nil || strings.HasPrefix(name, "invite-") {
		return nil
	}
	var of []string
	for _, m := range members {
		if m.Label != "" && m.Label == name {
			of = append(of, m.Account)
		}
	}
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	of = slices.Compact(of)
	const shown = 5
	more := ""
	if len(of) > shown {
		more = fmt.Sprintf(" and %d more", len(of)-shown)
		of = of[:shown]
	}
	return fmt.Errorf("%q is a name that members chose, which anyone may choose; ban one of these accounts: %s%s", name, strings.Join(of, ", "), more)
}
