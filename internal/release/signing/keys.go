// Package signing makes the metadata that package trusted reads: on a computer that is kept off line it signs releases, and at a manager it keeps the
// list of releases fresh.
//
// Two kinds of keys never meet. An offline key signs root and targets, so it alone can make volunteers' computers run a program; it never comes near
// a manager. The online key signs snapshot and timestamp, which say how new the list is.
package signing

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"shoal/internal/member"
)

const keyKind = "shoal-release-key-"

// Key is a key that signs metadata.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key.
func NewKey() (Key, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return Key{k}, err
}

// ReadKey reads a key's file, which nobody else may be able to read.
func ReadKey(path string) (Key, error) {
	text, err := member.ReadSecret(path)
	if err != nil {
		return Key{}, fmt.Errorf("release key: %w", err)
	}
	return parseKey(path, text)
}

func parseKey(path, text string) (Key, error) {
	word, ok := strings.CutPrefix(strings.TrimSpace(text), keyKind)
	seed, err := hex.DecodeString(word)
	if !ok || err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("%s is no release key: one is a word that begins with %q", path, keyKind)
	}
	return Key{ed25519.NewKeyFromSeed(seed)}, nil
}

// Write makes a key's file. It overwrites none.
func (k Key) Write(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already; a key is never overwritten: name another file, or use that key", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return member.WriteFile(path, []byte(keyKind+hex.EncodeToString(k.private.Seed())+"\n"))
}

func (k Key) public() (*metadata.Key, error) { return metadata.KeyFromPublicKey(k.private.Public()) }

// id is the name of the key in metadata.
func (k Key) id() (string, error) {
	p, err := k.public()
	if err != nil {
		return "", err
	}
	return p.ID()
}

func (k Key) signer() (signature.Signer, error) {
	return signature.LoadSigner(k.private, crypto.Hash(0))
}

// sign adds signatures to metadata.
func sign[T metadata.Roles](m *metadata.Metadata[T], keys ...Key) error {
	for _, k := range keys {
		s, err := k.signer()
		if err != nil {
			return err
		}
		if _, err := m.Sign(s); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
	}
	return nil
}
