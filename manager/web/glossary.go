package web

import (
	"fmt"
	"sync/atomic"
)

// glossary explains the words of the pages, where they stand.
var glossary = map[string]struct{ name, text string }{
	"network":    {"network", "The network's name is its public key. Volunteers see the same name when they join."},
	"channel":    {"channel", "What is recrawled as one unit: a whole Web host, one directory of it, or a set of directories."},
	"peer":       {"peer", "A volunteer's computer that takes crawl tasks."},
	"task":       {"task", "One recrawl of one channel, handed to one peer."},
	"out":        {"tasks out", "Tasks that a peer has or may have."},
	"due":        {"due", "Channels whose time has come, and which wait for a peer with room, or until their host may be visited again."},
	"update":     {"update", "A finished crawl that brought the stored copy of a channel up to date."},
	"fresh":      {"fresh", "The expected share of channels whose stored copy is still what the site shows, from the change rates learnt so far. Channels that are paused or given up do not count."},
	"heldback":   {"holding back", "A thread is room for one task at a peer. A channel that was never crawled, or whose copy is more probably stale than fresh, should have one. Where threads are idle though there are such channels, this says what holds most of them back; it is a few seconds old."},
	"truth":      {"fresh, in truth", "The share of channels of which every stored page is what the pond shows now. Only the pond, a synthetic Web, knows it; compare it with the estimate."},
	"truemean":   {"fresh, in truth, on average", "The share of channels that was fresh in truth, on average since this program was started, the first pass over all of them included. Pages: the share of all pages. By weight: of channels by their importance."},
	"esterror":   {"error of the estimate", "How far the estimated share of fresh channels was from the true one, too high or too low, on average since this program was started."},
	"refusal":    {"refusal", "No peer near the host could start the task in time: the sign that the swarm has more to do than it can."},
	"lapsed":     {"lapsed", "Tasks that came to nothing, as their peer went away or showed no progress. They were handed out again."},
	"group":      {"group", "Channels that change about equally often share a group, and a recrawl interval. Group 1 is the fastest."},
	"strategy":   {"strategy", "The rule that decides which channel is recrawled when."},
	"sequencers": {"where tasks come from", "What was asked for, and what came to nothing, goes before everything else. Then channels that are due are taken, new and old ones by a share, each in the strategy's order."},
	"generation": {"generation", "The number of a handing-out of the channel. Each later one is higher."},
	"upkeep":     {"at work", "What verifies, compacts, copies or takes down. One piece of it runs at a time, and others wait for its end; peers go on storing pages beside it."},
	"present":    {"pages stored", "Pages of which the archive has a version, counted about once a minute. It falls when pages are taken down, withdrawn and purged, or gone."},
	"stored":     {"page versions stored", "Every version of a page that was ever stored counts, also those that were forgotten since. It never falls."},
	"placing":    {"placing", "How tasks find a peer: hops are the peers asked on the way; milliseconds are predicted round trips between a peer and a Web host."},
	"rtt":        {"predicted RTT", "The round-trip time from this manager to the peer, predicted from both coordinates."},
	"coordinate": {"coordinate error", "How far off the peer's predictions of round-trip times are, on average, as a share."},
	"deliverer":  {"deliverer", "A peer, under the number by which captures, changes and exports name it. The number tells outsiders nothing, and stays the same in this archive."},
	"model":      {"update model", "How the manager thinks that the channel changes, from its visits. Poisson: at random times, equally often on average. Weibull and Pareto: in bursts, or after a pause. Quasi-deterministic: in a rhythm. Empirical: as its visits were."},
	"errors":     {"errors by kind", "Requests of crawls that failed, by the reason. docs/operator.md explains them. What a channel fails with stands in the list of channels."},
	"noted":      {"what crawls noted", "What crawls found and kept to; no failures. skipped-robots: pages that the host's robots.txt asks crawlers to leave out."},
	"managers":   {"managers", "Programs that share this network, each with a share of the Web hosts in 256 partitions. Every one of them shows the whole network and takes every order."},
	"swarm":      {"coordinate space", "Each dot is a peer. The nearer two dots are, the shorter is the round trip between them. Two of the eight dimensions are drawn."},
	"standing":   {"standing", "newcomer: on probation, its pages are looked at again. established: past that. suspended: too much is held against it; it gets no tasks until you uphold that or pardon it. banned: you upheld it, or banned it yourself."},
	"scores":     {"scores", "What is held against a peer: forging is content that was never there, laziness is to call a page unchanged without a look, checking is false content given when it looked at another peer's page. Evidence raises a score, each page that was as it said lowers it a little."},
	"shadow":     {"in shadow, or enforced", "In shadow scores run, and nothing follows from them. Enforced, a peer is suspended when a score reaches the limit: shoal trust set --enforce."},
	"contested":  {"contested", "Of these pages two peers said different things."},
	"checks":     {"valid checks", "Pages that the peer delivered, that another peer fetched again, and that were as it had said."},
	"cases":      {"cases", "A case is a page of which two peers said different things. Added is how much it raised the score of the peer that lost it. Each case shows what both saw."},
	"delay":      {"crawl delay", "How long a host is left alone between two visits, as its robots.txt asks. Empty: it asks for nothing."},
	"probation":  {"on probation", "A peer that took a version is on probation until it is connected and has finished a task. If the version fails it, it falls back to the one before."},
	"watch":      {"on watch", "Two peers lost cases on the channel within two weeks, or one lost badly. Established peers from anywhere crawl it, more of its pages are fetched again, and a new version is held until that has shown nothing against it."},
	"suspect":    {"members to look at", "Members that waste tasks, or send what is not so, more than honest ones do. They get fewer tasks by themselves; to end it is yours to decide."},
	"state":      {"state", "failing: the last crawl failed, or its host refused it, and it is tried again. given up: too many failed; resume it to try again. blocked: its host is. paused: by an operator. new: never crawled."},
}

// term is a word's explanation, to be opened at a button.
type term struct{ ID, Name, Text string }

var terms atomic.Int64

// termOf finds a word; each answer has an id of its own. It returns nil for a word that is not in the glossary.
func termOf(word string) *term {
	g, ok := glossary[word]
	if !ok {
		return nil
	}
	return &term{fmt.Sprintf("why-%s-%d", word, terms.Add(1)), g.name, g.text}
}
