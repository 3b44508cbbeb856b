// Package trust finds out which peers deliver pages that were never on the Web, and bounds what their lies can do. A Machine is told of evidence: what was
// delivered, what a second peer saw of the same page a few minutes later, what the arbiter saw. It answers with Acts: audit this page, arbitrate,
// hold this delivery, watch this channel, suspend this peer.
//
//	delivery ──▶ next crawl audits the last one ──▶ Arbitrate ──▶ ruling ──▶ score ──▶ Suspect, Suspend, Withdraw, Recrawl
//	         └─▶ Audit ──▶ answer ──▶ conflict ─────────▲                      └─▶ channel on Watch
//
// Each peer has three scores: forging, laziness and checking. A score is a CUSUM: evidence against the peer raises it, every confirmed page lowers it a
// little, and it never falls below zero, so that good conduct buys no credit. Caps bound what one task and one registrable domain can add. See Page,
// "Continuous inspection schemes" (Biometrika 1954); for probation, Sarmenta, "Sabotage-tolerance mechanisms for volunteer computing systems" (CCGrid 2001).
//
// What a task shows on several pages that were different is a captcha, a wall or an error page more often than a lie: it is held at once, and counts little. What a
// delivery says, once it has lost before the arbiter, vouches for no version of another. Others are then to come and see its pages: the channel's next crawls go
// anywhere.
//
// Nobody's word convicts: a peer loses by what the arbiter fetched, or, without an arbiter, by what two more accounts saw. One charge needs neither: a task that
// calls five pages unchanged which visits of different accounts found to differ at each fetch. The Machine starts in shadow: it
// scores, and suspends nobody, until the operator has seen what the honest tail of the scores proposes as T.
//
// A Page is the record of one page's versions. Its host keeps it beside the page and hands it in. The Machine keeps at most 200 bytes of a peer, and 16
// of a channel that has had trouble, and gives both as bytes to be stored.
//
// Invariants, which random worlds test at every step: no score is negative, and good conduct leaves no trace but the end of a probation; a peer is suspended
// only after evidence from at least four registrable domains, or three with a second checker; a withdrawn or held version
// is never verified; a version is verified only if an established peer of another account and address prefix saw it.
//
// The package is pure: no clock, no goroutine, no database, no map whose order matters. It does not fetch, compare words (package compare does), choose
// who crawls (it says who may), or keep the captures that are evidence.
package trust
