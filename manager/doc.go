// Package manager asks for recrawls and learns from what comes back. Its loop owns the scheduler's facts and the leases of all channels:
// it takes what is due, has placers make a generation durable, build, sign and deposit the task and find a peer for it, and applies the
// reports of the archive's feed exactly once. It sees database, archive and overlay through interfaces of its own (Store, Archive, Swarm).
//
// It is not for deciding what is due (recrawl), whose word counts (channel/lease), where a task goes (overlay), nor for storing pages
// (manager/archive).
//
// Invariants: a generation is durable before its offer leaves; of the channels of one host only one has a task out; a stretch of
// the feed and its effects are committed in one transaction or not at all; tasks out are bounded by what the swarm's threads and queues hold.
package manager
