package channel

import "strings"

// Parts is into how many partitions hosts fall, where several managers share them.
const Parts = 256

// Part is the partition of a host.
func (k HostKey) Part() uint8 { return uint8(k >> 56) }

// Tenancy is one start of a manager among several on one database. Its writes carry its ID as their Epoch.
type Tenancy struct {
	ID      Epoch
	Node    string // peer id of the manager
	Writer  string // by which it writes to the archive's log
	About   []byte // what the managers tell each other of themselves
	Leaving bool   // it gives its partitions up, and takes none
}

// Tenure is who shares a database, and who has which partition.
type Tenure struct {
	Tenants []Tenancy // by ID
	Owner   [Parts]Epoch
}

// Taken are partitions that a manager has taken.
type Taken struct {
	Parts   []uint8
	Cursors []string // up to where their last owners have taken in the archive's feed
	Ended   []string // writers of tenancies that have ended
}

// Note is what a manager tells the others on its database, such as what an operator has asked it for.
type Note struct {
	What string
	Body []byte
}

// OwnState is the name under which a database keeps a state that each of several managers has for itself; node is the manager's peer id.
func OwnState(node, name string) string { return ownStates + node + "/" + name }

// ownStates is what the names of such states begin with.
const ownStates = "at/"

// CutOwnState is the manager's name for a state that is kept for it alone; false: a database keeps it for all, or for one that has it for itself.
func CutOwnState(kept string) (name string, own bool) {
	rest, own := strings.CutPrefix(kept, ownStates)
	if !own {
		return kept, false
	}
	_, name, own = strings.Cut(rest, "/")
	return name, own
}

// OwnerOfState is the peer id of the manager for which alone a state is kept; empty: it is kept for all.
func OwnerOfState(kept string) string {
	rest, own := strings.CutPrefix(kept, ownStates)
	if node, _, whole := strings.Cut(rest, "/"); own && whole {
		return node
	}
	return ""
}
