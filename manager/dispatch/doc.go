// Package dispatch decides which task is handed out now, and what becomes of it. A Machine is told of events and of the time; it answers with
// Orders (hand this task out) and Acts (keep this, tell that). The manager runs it against its database, the swarm and the archive;
// the simulators run the same Machine against simulated ones.
//
//	Due ─── wanted ──▶ admit ──▶ Order ──▶ offered ─┬─ Placed ──▶ claimed ──▶ reported: idle
//	                    ▲  ▲                        ├─ Refused ─▶ left to Due, or offered again soon
//	Judge ─ who has room   │                        ├─ Unsure ──▶ the claim is awaited
//	                       │                        └─ Unsent, Outran ──┐
//	                       └── waits ◀── never claimed, lapsed, released ◀┘
//
// A channel that is not idle has a flight: its task is out, or waits to be handed out again. Before a task goes, admit asks in this order: is
// the host blocked, is another channel of the host out, has the host's next visit come, did the last crawl fail a short while ago, would the task
// outlive the manager, and, by the Judge, has a peer near the host room. A task waits for a near peer for some ticks and then goes farther;
// of several that may, the one goes that loses least by it.
//
// The rooms that are asked are behind three small interfaces: Due says what is wanted (recrawl.Scheduler), Channels what is kept of a
// channel, Judge who is near and has room. The life of one generation is package lease's; the Machine holds the lease.Issue of each flight.
//
// Invariants, which the tests look at after every step of random worlds: a channel has one task out at most; no task is handed out while
// another channel of its host is out; no more are out than the peers hold that are known, and what those have that are gone; a waiting flight
// has a timer or stands among the immediate; nothing waits for longer than a few ticks while the peer nearest to its host stands idle;
// and when the world is kind, every channel is crawled.
//
// It is pure: no clock, no goroutine, no randomness, no file; the same calls give the same answers. It is not for deciding what is due (package
// recrawl), nor where a task goes (package overlay), nor for making anything durable: an Order's Issue must be before its offer leaves.
package dispatch
