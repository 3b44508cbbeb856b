package deptest

// A rule says what a room may import of the project, and why not more.
type rule struct {
	room string   // package path below the module; a trailing "/..." covers what is under it
	may  []string // rooms that it may import; likewise
	pure bool     // no clock, randomness of its own, goroutine, log, file, socket
	why  string   // the reason for the ban on everything else
}

// rules is the table of ARCHITECTURE.md. The first rule that covers a package binds it.
var rules = []rule{
	{"coords", nil, true, "coordinates are arithmetic; the one who measures hands the numbers in"},
	{"channel", []string{"channel/channelpb", "coords"}, true, "the shared words must not depend on who speaks them"},
	{"channel/listing", []string{"channel"}, false, "lists of channels are read without knowing who keeps them"},
	{"channel/channelpb", nil, false, "generated code"},
	{"channel/lease", []string{"channel"}, true, "fencing is proved under every interleaving, which only a pure machine allows"},
	{"channel/order", nil, true, "the simulator and the crawler run the same orderings"},
	{"channel/badgerdb/tables", nil, false, "a leaf: both databases ask it"},
	{"channel/storetest", []string{"channel", "coords"}, false, "the contract of the consumer's Store interface, for every implementation"},
	{"channel/...", []string{"channel", "channel/badgerdb/tables"}, false, "a store keeps channels and knows nothing of crawling"},
	{"overlay", []string{"channel", "coords"}, true, "the state machine runs three thousand at a time in the simulator"},
	{"overlay/overlaytest", []string{"overlay", "channel", "coords", "internal/member", "channel/lease"}, false, "the contract of the overlay knows no transport"},
	{"overlay/p2p/...", []string{"overlay", "overlay/p2p/...", "internal/wire", "internal/member", "channel", "channel/channelpb", "coords"}, false, "libp2p stays below the overlay, the queue and the manager above it"},
	{"recrawl/...", []string{"recrawl/..."}, true, "strategies know facts by slot, no channels, so that the simulator and the manager run the same ones"},
	{"peer/queue", nil, true, "the simulator runs it by the thousand"},
	{"peer/crawl/...", []string{"channel", "channel/order", "peer/crawl/..."}, false, "a crawl knows no libp2p: it is given a task, a dialler and a sink"},
	{"peer/limit/...", []string{"channel"}, false, "limits are decided by settings and policy alone; of the channels only what a Web port is"},
	{"peer/...", []string{"peer/...", "overlay", "overlay/p2p", "channel", "coords", "internal/member", "internal/wire", "internal/wire/uplink"}, false, "the agent must not contain the manager: volunteers run it"},
	{"manager/archive/...", []string{"manager/archive/...", "channel/lease", "channel", "channel/badgerdb/tables", "internal/wire", "internal/wire/uplink", "channel/order"}, false, "any number of archives run without a manager beside them"},
	{"manager/dispatch", []string{"channel", "channel/lease", "recrawl"}, true, "the manager and the simulators hand tasks out by the same machine; databases, the overlay and the archive are its host's"},
	{"manager/desk", []string{"channel", "channel/lease", "channel/listing", "coords", "internal/plain", "manager", "overlay", "recrawl"}, false, "what an operator can do knows no HTTP, so that pages, interface and command line cannot differ"},
	{"manager/web", []string{"channel", "internal/plain", "manager/desk"}, false, "pages show what the desk tells them, and word times as the command line does"},
	{"manager/api", []string{"channel", "channel/listing", "manager/archive", "manager/desk", "recrawl"}, false, "the interface decides nothing, and works before a running manager and a stopped one's database alike"},
	{"manager", []string{"channel", "coords", "recrawl/...", "overlay", "manager/archive", "manager/dispatch", "channel/lease", "internal/plain", "internal/version"}, false, "the manager sees the archive and the database through its own interfaces, also in one process"},
	{"internal/member/...", []string{"channel", "internal/member/..."}, true, "trust is decided by bytes and a clock that is handed in"},
	{"internal/wire/frame", nil, false, "a leaf: bytes and their bounds"},
	{"internal/wire/sockets", nil, false, "a leaf: sockets know no members"},
	{"internal/wire/gate", []string{"internal/member"}, false, "the gate is told who is a member"},
	{"internal/wire/...", []string{"internal/again", "internal/member", "internal/wire/...", "channel", "channel/lease"}, false, "the wire carries, and knows neither queue nor database; of the manager only the words of the lease"},
	{"cmd/shoal-sim/ordertrial", []string{"internal/lab/pond", "cmd/shoal-sim/ordersim", "channel", "peer/crawl", "channel/order"}, false, "an experiment with real crawls, without the network that hands them out"},
	{"internal/lab/pond", nil, false, "the synthetic Web is outside of the system that crawls it"},
	{"internal/version", nil, false, "a leaf"},
	{"internal/again", nil, false, "a leaf: it paces what it knows nothing of"},
	{"internal/plain", nil, false, "a leaf: it words what it is handed"},
	{"internal/plan", []string{"recrawl/..."}, false, "a plan reads channels that it is handed, so that a CSV and a database are planned alike"},
	{"internal/lab/disklab", nil, false, "disks for tests know nothing of who writes to them"},
	{"internal/lab/rogue", []string{"channel/channelpb", "internal/wire/wirepb", "internal/wire/uplink/uplinkpb", "overlay/p2p/overlaypb"}, false, "another make knows the message definitions alone"},
	{"internal/lab/netlab", nil, false, "networks for tests know nothing of who runs in them"},
	{"internal/deptest", nil, false, "a leaf"},
	{"internal/sim", nil, false, "a leaf: virtual time and latencies for experiments and the contract of the overlay"},
	{"cmd/shoal-sim/...", []string{"cmd/shoal-sim/...", "internal/sim", "internal/plain", "internal/version", "channel", "coords", "overlay", "recrawl/...", "peer/queue", "channel/order", "channel/lease"}, false, "a simulation that re-implements the product, or drags its sockets along, proves nothing"},
	{"internal/lab/e2e/...", []string{"..."}, false, "the whole system from outside"},
	{"cmd/...", []string{"..."}, false, "flags become a Config here, and only here does a program exit"},
}
