// Package netlab makes small networks of Linux network namespaces for tests with real processes: sites at given
// distances from each other, with loss and partitions, and homes behind address translation. The package is not part
// of any program.
//
// Packets between sites pass through this process, because many kernels lack netem. Each site has a TUN device, and a
// relay moves packets from one device to another after half of the round-trip time between the two. A veth pair joins
// a home to its router, which translates addresses with nftables.
//
// It needs root, /dev/net/tun, and the programs ip and nft. It touches nothing outside the namespaces that it made,
// and Close removes all of them.
package netlab
