// Package netlab makes small networks of Linux network namespaces for tests with real processes: sites at given distances from each
// other, with loss and partitions, and homes behind address translation. It is not part of any program.
//
// Between the sites packets pass through this process: each has a TUN device, and a relay moves what comes out of one into another after
// half of the round-trip time of the two, since many kernels lack netem. Homes are joined to their router by a veth pair; the router
// translates with nftables.
//
// It wants root, /dev/net/tun, and the programs ip and nft. Invariants: nothing outside of the namespaces that it made is touched; all of
// them are gone after Close.
package netlab
