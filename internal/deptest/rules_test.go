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
	{"channel/sitemap", nil, true, "what sites publish is read alike by crawls and by lists of channels, without fetching"},
	{"channel/listing", []string{"channel", "channel/sitemap"}, false, "lists of channels are read without knowing who keeps them"},
	{"channel/channelpb", nil, false, "generated code"},
	{"channel/lease", []string{"channel"}, true, "fencing is proved under every interleaving, which only a pure machine allows"},
	{"channel/order", nil, true, "the simulator and the crawler run the same orderings"},
	{"channel/groupcommit", nil, false, "a leaf: what is committed is handed in"},
	{"channel/badgerdb/tables", nil, false, "a leaf: both databases ask it"},
	{"channel/storetest", []string{"channel", "coords"}, false, "the contract of the consumer's Store interface, for every implementation"},
	{"channel/...", []string{"channel", "channel/badgerdb/tables", "channel/groupcommit"}, false, "a store keeps channels and knows nothing of crawling"},
	{"overlay", []string{"channel", "coords"}, true, "the state machine runs three thousand at a time in the simulator"},
	{"overlay/overlaytest", []string{"overlay", "channel", "coords", "internal/member", "channel/lease"}, false, "the contract of the overlay knows no transport"},
	{"overlay/p2p/...", []string{"overlay", "overlay/p2p/...", "internal/wire", "internal/member", "channel", "channel/channelpb", "coords"}, false, "libp2p stays below the overlay, the queue and the manager above it"},
	{"recrawl/...", []string{"recrawl/..."}, true, "strategies know facts by slot, no channels, so that the simulator and the manager run the same ones"},
	{"peer/queue", nil, true, "the simulator runs it by the thousand"},
	{"peer/crawl/...", []string{"channel", "channel/order", "channel/sitemap", "peer/crawl/..."}, false, "a crawl knows no libp2p: it is given a task, a dialler and a sink"},
	{"peer/limit/...", []string{"channel"}, false, "limits are decided by settings and policy alone; of the channels only what a Web port is"},
	{"peer/...", []string{"peer/...", "overlay", "overlay/p2p", "channel", "coords", "internal/member", "internal/wire", "internal/wire/uplink"}, false, "the agent must not contain the manager: volunteers run it"},
	{"manager/archive/archivepb", nil, false, "generated code"},
	{"manager/archive/warc", nil, false, "a format knows nothing of who writes it"},
	{"manager/archive/text", nil, false, "a leaf: text is taken out of bytes"},
	{"manager/archive/keylock", nil, false, "a leaf"},
	{"manager/archive/importance", []string{"channel/order"}, false, "pages are known by the hashes of their URLs"},
	{"manager/archive/segment", []string{"manager/archive/warc"}, false, "a seam knows neither side of it"},
	{"manager/archive/schema", []string{"manager/archive/archivepb", "manager/archive/segment"}, false, "the layout of the records is all that the rooms and the stores share"},
	{"manager/archive/warc/...", []string{"manager/archive/warc", "manager/archive/segment"}, false, "a segment store keeps records and knows no page, no channel and no database"},
	{"manager/archive/ledger", []string{"channel", "channel/lease", "channel/groupcommit", "internal/wire/uplink", "manager/archive/archivepb", "manager/archive/keylock", "manager/archive/schema", "manager/archive/segment"}, false, "the ledger reaches its database and its files through the two seams, and what a page is through Pages"},
	{"manager/archive/ledger/...", []string{"channel/badgerdb/tables", "manager/archive/archivepb", "manager/archive/ledger", "manager/archive/schema"}, false, "a ledger store keeps records and decides nothing"},
	{"manager/archive/pages", []string{"channel", "manager/archive/archivepb", "manager/archive/keylock", "manager/archive/ledger", "manager/archive/schema", "manager/archive/segment", "manager/archive/text", "manager/archive/warc"}, false, "pages are stored and found through the seams; upkeep stands above"},
	{"manager/archive/upkeep", []string{"channel", "channel/order", "manager/archive/archivepb", "manager/archive/importance", "manager/archive/ledger", "manager/archive/pages", "manager/archive/schema", "manager/archive/segment", "manager/archive/warc", "manager/archive/warc/folder"}, false, "upkeep works through the seams; only a backup is always a folder"},
	{"manager/archive/...", []string{"manager/archive/...", "channel", "channel/lease", "channel/badgerdb/tables", "internal/wire", "internal/wire/uplink"}, false, "any number of archives run without a manager beside them"},
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
	{"cmd/shoal-sim/ordertrial", []string{"internal/lab/pond", "cmd/shoal-sim/ordersim", "cmd/shoal-sim/tidy", "channel", "peer/crawl", "channel/order"}, false, "an experiment with real crawls, without the network that hands them out"},
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
	{"cmd/shoal-sim/...", []string{"cmd/shoal-sim/...", "internal/sim", "internal/plain", "internal/version", "channel", "coords", "overlay", "recrawl/...", "peer/queue", "channel/order", "channel/lease", "manager/dispatch"}, false, "a simulation that re-implements the product, or drags its sockets along, proves nothing"},
	{"internal/lab/e2e/...", []string{"..."}, false, "the whole system from outside"},
	{"cmd/...", []string{"..."}, false, "flags become a Config here, and only here does a program exit"},
}
