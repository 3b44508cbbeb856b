package member

import (
	"errors"
	"fmt"
)

// MaxReleases bounds the network's word about its releases.
const MaxReleases = 256

// ErrNoRoot is returned where the root key is not at hand.
var ErrNoRoot = errors.New("member: the network's root key is not here")

// SealReleases has the root key say whose releases of the volunteers' program the network's peers take: those that the first metadata with this SHA-256
// leads to. Peers keep the first such word that they hear.
func (k *Keys) SealReleases(first [32]byte) ([]byte, error) {
	if k.root == nil {
		return nil, fmt.Errorf("%w; name the backup of the network's keys", ErrNoRoot)
	}
	return seal(NewRoot(*k.root).key, contextReleases, first[:], nil, MaxReleases)
}

// ReadBackup reads what Backup wrote, for signing with the root key. It writes nothing.
func ReadBackup(backup string) (*Keys, error) { return parseBackup(backup) }

// OpenReleases checks the word of a network's root key about its releases.
func OpenReleases(network NetworkID, sealed []byte) (first [32]byte, err error) {
	m, err := unseal("word about releases", sealed, MaxReleases)
	if err != nil {
		return first, err
	}
	if err := verify(network, contextReleases, m.Raw, m.Sig); err != nil {
		return first, fmt.Errorf("word about releases: %w", err)
	}
	return key32("word about releases", m.Raw)
}
