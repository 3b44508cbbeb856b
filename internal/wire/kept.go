package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// Kept is what a member keeps over a restart. The zero value has not joined.
type Kept struct {
	Join        string // join string
	Account     string // the name that its user chose
	Certificate []byte
	Document    []byte
}

// ErrNotJoined is a folder that belongs to no member yet.
var ErrNotJoined = errors.New("wire: not joined a network yet; run `shoal-peer join` with the join string of one")

const (
	fileKept    = "membership"
	keptVersion = 1
	maxKept     = member.MaxDocument + member.MaxJoinString + 4<<10
)

// Network is the network that was joined.
func (k Kept) Network() (member.NetworkID, error) {
	j, err := member.ParseJoinString(k.Join)
	return j.Network, err
}

// Marshal encodes it for a file.
func (k Kept) Marshal() ([]byte, error) {
	return proto.Marshal(&wirepb.Kept{Version: keptVersion, Join: k.Join, Account: k.Account, Certificate: k.Certificate, Document: k.Document})
}

// ParseKept reads what Marshal wrote. It checks form, not truth; New does that.
func ParseKept(b []byte) (Kept, error) {
	if len(b) == 0 {
		return Kept{}, errors.New("wire: membership is empty; the disk was full, or the system crashed, when it was written")
	}
	if len(b) > maxKept {
		return Kept{}, fmt.Errorf("wire: membership of %d bytes, at most %d", len(b), maxKept)
	}
	var m wirepb.Kept
	if err := proto.Unmarshal(b, &m); err != nil {
		return Kept{}, fmt.Errorf("wire: membership: %w", err)
	}
	if m.Version != keptVersion {
		return Kept{}, fmt.Errorf("wire: membership of version %d, this program knows %d; update it", m.Version, keptVersion)
	}
	k := Kept{Join: m.Join, Account: m.Account, Certificate: m.Certificate, Document: m.Document}
	if _, err := k.Network(); err != nil {
		return Kept{}, fmt.Errorf("wire: membership: %w", err)
	}
	if member.CheckLabel(k.Account) != nil { // kept by a version that let more through
		k.Account = ""
	}
	if _, err := member.ReadCertificate(k.Certificate); err != nil {
		return Kept{}, fmt.Errorf("wire: membership: %w", err)
	}
	if _, err := member.ReadDocument(k.Document); err != nil {
		return Kept{}, fmt.Errorf("wire: membership: %w", err)
	}
	return k, nil
}

// LoadKept reads a member's folder. ErrNotJoined: there is none.
func LoadKept(dir string) (Kept, error) {
	path := filepath.Join(dir, fileKept)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Kept{}, ErrNotJoined
	}
	if err != nil {
		return Kept{}, fmt.Errorf("wire: membership: %w", err)
	}
	k, err := ParseKept(b)
	if err != nil {
		return Kept{}, fmt.Errorf("%s: %w; to replace it leave the network, and join again", path, err)
	}
	return k, nil
}

// SaveTo is a Config.Keep that writes into a folder.
func SaveTo(dir string) func(Kept) error {
	return func(k Kept) error {
		b, err := k.Marshal()
		if err != nil {
			return fmt.Errorf("wire: membership: %w", err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("wire: membership: %w", err)
		}
		return member.WriteFile(filepath.Join(dir, fileKept), b)
	}
}
