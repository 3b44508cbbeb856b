package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shoal/internal/member"
)

type keyCmd struct {
	Show    keyShowCmd    `cmd:"" help:"Show the network's name and the keys in use."`
	Backup  keyBackupCmd  `cmd:"" help:"Print what is needed to continue the network on another disk. Keep it secret."`
	Restore keyRestoreCmd `cmd:"" help:"Write the keys of a backup into a data folder; a working key that is there and good stays."`
	Rotate  keyRotateCmd  `cmd:"" help:"Make a new working key under the same root key."`
}

type keyDir struct {
	Data string `help:"The manager's data folder." default:"${data}" type:"path" placeholder:"DIR"`
}

func (k keyDir) keys() string { return filepath.Join(k.Data, "keys") }

// open opens keys that exist; it makes none.
func (k *keyDir) open() (*member.Keys, error) {
	if _, err := os.Stat(k.keys()); errors.Is(err, os.ErrNotExist) {
		if at, derr := dataOf(k.Data); derr == nil && at != k.Data { // of shoal up
			k.Data = at
			return k.open()
		}
		return nil, fmt.Errorf("there is no network in %s: name the manager's data folder with --data, or start one with `shoal manager`", k.Data)
	}
	return member.LoadOrCreate(k.keys(), time.Now())
}

type keyShowCmd struct {
	keyDir
	JSON bool `name:"json" help:"As JSON."`
}

func (c *keyShowCmd) Run(s streams) error {
	k, err := c.open()
	if err != nil {
		return err
	}
	d := k.Authority.Delegation()
	root := "here"
	if !k.HasRoot() {
		root = "not here (kept offline): it is needed again before the working key's delegation ends"
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]any{"network": k.Network.String(), "root_key_here": k.HasRoot(), "working_key": hex.EncodeToString(d.Key[:]),
			"serial": d.Serial, "not_before": d.NotBefore, "not_after": d.NotAfter, "folder": c.keys()})
	}
	fmt.Fprintf(s.out, "network       %s\nroot key      %s\nworking key   %s\n  serial      %d\n  valid       %s to %s\nfolder        %s\n",
		k.Network, root, hex.EncodeToString(d.Key[:]), d.Serial, d.NotBefore.Format(time.DateOnly), d.NotAfter.Format(time.DateOnly), c.keys())
	return nil
}

type keyBackupCmd struct {
	keyDir
	Out  string `help:"Write to this new file, readable by its owner only, instead of standard output." type:"path" placeholder:"FILE"`
	JSON bool   `name:"json" help:"As JSON."`
}

func (c *keyBackupCmd) Run(s streams) error {
	k, err := c.open()
	if err != nil {
		return err
	}
	text, err := k.Backup()
	if err != nil {
		return err
	}
	network := k.Network.String()
	if c.Out == "" {
		if c.JSON {
			err = json.NewEncoder(s.out).Encode(map[string]string{"network": network, "backup": text})
		} else {
			_, err = fmt.Fprintln(s.out, text)
		}
		if err != nil {
			return err
		}
		return c.stamp()
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the backup: %w (an existing file is never overwritten)", err)
	}
	if _, err := fmt.Fprintln(f, text); err != nil {
		f.Close()
		return fmt.Errorf("write the backup: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	what := fmt.Sprintf("the network %s, of %s", network, c.Data)
	if _, err := os.Stat(filepath.Join(c.Data, pondMark)); err == nil {
		what += ", which crawls a pond and not the Web (--data names another folder)"
	}
	fmt.Fprintf(s.err, "The backup of %s is in %s. Whoever has it is the network: keep it off this machine.\n", what, c.Out)
	if c.JSON {
		if err := json.NewEncoder(s.out).Encode(map[string]string{"network": network, "file": c.Out}); err != nil {
			return err
		}
	}
	return c.stamp()
}

// stamp notes for `shoal check` that there is a backup.
func (c *keyBackupCmd) stamp() error {
	return member.WriteFile(filepath.Join(c.Data, backupStamp), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"))
}

type keyRestoreCmd struct {
	keyDir
	File    string `arg:"" help:"What shoal key backup wrote." type:"path"`
	Another bool   `help:"For a further manager beside those that run: with an identity of its own. See shoal manager --several."`
	JSON    bool   `name:"json" help:"As JSON."`
}

func (c *keyRestoreCmd) Run(s streams) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	var k *member.Keys
	kept := false
	if c.Another {
		k, err = member.Join(c.keys(), string(text), time.Now())
	} else {
		k, kept, err = member.Restore(c.keys(), string(text), time.Now())
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]any{"network": k.Network.String(), "folder": c.Data, "working_key_kept": kept})
	}
	switch {
	case kept:
		_, err = fmt.Fprintf(s.out, "the working key of network %s in %s is good, and stays; root.key is there\n", k.Network, c.Data)
		return err
	case c.Another:
		_, err = fmt.Fprintf(s.out, "a further manager of network %s can run on %s: start it with `shoal manager --several --db URL --bucket URL`\n", k.Network, c.Data)
		return err
	}
	_, err = fmt.Fprintf(s.out, "network %s goes on in %s\n", k.Network, c.Data)
	return err
}

type keyRotateCmd struct {
	keyDir
	Stolen bool `help:"The old working key is in others' hands: what it signed counts for nothing from now on."`
	JSON   bool `name:"json" help:"As JSON."`
}

func (c *keyRotateCmd) Run(s streams) error {
	if _, err := c.open(); err != nil {
		return err
	}
	k, err := member.Rotate(c.keys(), time.Now(), c.Stolen)
	if err != nil {
		return err
	}
	d := k.Authority.Delegation()
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]any{"network": k.Network.String(), "working_key": hex.EncodeToString(d.Key[:]), "serial": d.Serial,
			"not_before": d.NotBefore, "not_after": d.NotAfter})
	}
	_, err = fmt.Fprintf(s.out, "new working key, serial %d. Restart the manager: members learn of it when they renew.\n", d.Serial)
	return err
}
