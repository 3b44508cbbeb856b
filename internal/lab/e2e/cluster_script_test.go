package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// outage is something that breaks in a network of several managers, for a time.
type outage struct {
	at, long time.Duration
	kind     string
	target   int    // a peer, a manager or a host
	name     string // of a strategy, or by how much a clock steps
}

func (o outage) String() string {
	return fmt.Sprintf("%v %s %d %s for %v", o.at, o.kind, o.target, o.name, o.long)
}

// What an outage is at work on. No two are at work on the same one at a time.
const (
	onPeer     = "peer"
	onOne      = "manager"
	onHost     = "host"
	onDatabase = "database"
	onBucket   = "bucket"
	onNetwork  = "network" // what an operator asks of any manager
	onClock    = "clock"   // of a manager, which may be down or stopped meanwhile
)

var outages = []struct {
	kind, on string
	weight   int
	names    []string // to choose from
}{
	{"kill-peer", onPeer, 3, nil},                 // SIGKILL; it starts again
	{"stop-peer", onPeer, 3, nil},                 // SIGSTOP
	{"cut-peer", onPeer, 3, nil},                  // nothing that it sends reaches another member
	{"kill-one", onOne, 4, nil},                   // SIGKILL of a manager; it starts again
	{"stop-one", onOne, 4, nil},                   // SIGSTOP: its partitions may be taken over meanwhile
	{"end-one", onOne, 2, nil},                    // it is asked to end, and starts again, in the present version
	{"cut-database", onOne, 3, nil},               // a manager does not reach the database
	{"cut-bucket", onOne, 3, nil},                 // a manager does not reach the bucket
	{"cut-one", onOne, 3, nil},                    // a manager and the members do not reach each other; it reaches its servers
	{"kill-database", onDatabase, 3, nil},         // SIGKILL; it starts again
	{"stop-database", onDatabase, 2, nil},         // SIGSTOP of all its processes
	{"promote-database", onDatabase, 3, nil},      // SIGKILL, and the standby takes over; the old one follows it then
	{"slow-database", onDatabase, 2, nil},         // each piece that it sends or gets is late
	{"full-database", onDatabase, 1, nil},         // its disk has no room
	{"reset-database", onDatabase, 3, nil},        // all connections to it break
	{"fail-bucket", onBucket, 3, nil},             // every fourth request is answered by status 500
	{"slow-bucket", onBucket, 2, nil},             // each request is late
	{"tear-bucket", onBucket, 3, nil},             // every fourth object breaks off, or its answer is lost
	{"lag-bucket", onBucket, 2, nil},              // listings leave out what was written lately
	{"block", onHost, 2, nil},                     // an operator blocks a host, and unblocks it
	{"purge", onHost, 1, nil},                     // an operator takes a host down, and imports it again
	{"step-one", onClock, 3, clusterSteps},        // the wall clock of a manager steps, and back
	{"remove", onHost, 1, nil},                    // an operator removes a host's channels, and imports the host again
	{"split", onHost, 2, nil},                     // an operator makes a directory of a host a channel of its own
	{"strategy", onNetwork, 2, clusterStrategies}, // an operator has all channels chosen in another way
	{"backup", onNetwork, 1, nil},                 // an operator writes a backup
	{"compact", onNetwork, 3, nil},                // an operator compacts the archive
}

// What outages are called that may be of several sorts.
var (
	clusterSteps      = []string{"+3s", "-3s", "+40s", "-40s", "+10m", "-10m"}
	clusterStrategies = []string{"icr", "iir", "price", "optimal"}
)

// clusterScript draws what breaks, of a seed.
func clusterScript(seed uint64, peers, managers, hosts int, length, every, longest time.Duration) (script []outage) {
	rng := rand.New(rand.NewPCG(seed, 0x636c7573))
	numbers := map[string]int{onPeer: peers, onOne: managers, onHost: hosts, onDatabase: 1, onBucket: 1, onNetwork: 1, onClock: managers}
	busy := map[string]time.Duration{}
	var bag []int // each kind as often as its weight says
	for at := time.Duration(0); ; {
		if at += time.Duration(rng.ExpFloat64() * float64(every)).Round(time.Millisecond); at >= length {
			return script
		}
		if len(bag) == 0 {
			for n, k := range outages {
				bag = append(bag, slices.Repeat([]int{n}, k.weight)...)
			}
			rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		k := outages[bag[0]]
		u := rng.Float64()
		o := outage{at: at, kind: k.kind, target: rng.IntN(numbers[k.on]), long: (300*time.Millisecond + time.Duration(u*u*float64(longest))).Round(time.Millisecond)}
		if len(k.names) > 0 {
			o.name = k.names[rng.IntN(len(k.names))]
		}
		on := fmt.Sprint(k.on, o.target)
		if busy[on] >= at || o.at+o.long > length {
			bag = append(bag[1:], bag[0]) // later
			continue
		}
		bag, busy[on] = bag[1:], o.at+o.long
		script = append(script, o)
	}
}

// TestClusterScript draws scripts: the same of the same seed, all over in time, of every kind, and no two at work on one thing.
func TestClusterScript(t *testing.T) {
	draw := func(seed uint64) []outage {
		return clusterScript(seed, 6, 3, 20, 10*time.Minute, 2*time.Second, 20*time.Second)
	}
	for seed := range uint64(20) {
		script := draw(seed)
		if !slices.Equal(script, draw(seed)) {
			t.Fatalf("seed %d gives two scripts", seed)
		}
		until, kinds := map[string]time.Duration{}, map[string]bool{}
		for _, o := range script {
			kinds[o.kind] = true
			what, _, _ := strings.Cut(o.kind, " ")
			on := ""
			for _, k := range outages {
				if k.kind == what {
					on = fmt.Sprint(k.on, o.target)
				}
			}
			if end, ok := until[on]; ok && o.at <= end || o.at+o.long > 10*time.Minute {
				t.Errorf("seed %d: %v, and %s is busy until %v", seed, o, on, end)
			}
			until[on] = o.at + o.long
		}
		if len(kinds) != len(outages) || len(script) < 100 {
			t.Errorf("seed %d: %d outages of %d kinds", seed, len(script), len(kinds))
		}
	}
}
