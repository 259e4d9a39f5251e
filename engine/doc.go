// Package engine runs rounds: one command to all masters, over one connection
// to each that all callers share, and the votes that come back. It knows the
// three commands of a lock, and runs any other command or script in the same
// way; what a lock promises is decided above it.
//
// # A round
//
// A caller takes a Round from the pool, fills it in, queues it, and waits:
//
//	r := e.NewRound(&engine.Acquire)
//	r.Key, r.TTL = "resource", 10*time.Second
//	r.SetValue(value)
//	e.Queue(r)            // into the batch, and onto every master's queue of replies
//	o := e.Wait(ctx, r)   // writes the batch, reads replies, returns at the deciding vote
//
// What decides stands in files of its own and knows nothing of sockets,
// goroutines or clocks: how votes decide (quorum.go), what commands look like
// and what replies mean (command.go), the state of a master (contact.go), and
// when to try again (backoff.go).
//
// # Concurrency
//
// One mutex, Engine.mu, guards all state. It is never held across a system
// call that can wait nor across a function that a user has given: votes are
// computed and rounds encoded outside of it. Two roles move bytes, each held
// by one goroutine at a time, each a field under the mutex:
//
//   - The writer (write.go) takes the whole batch and writes it to every
//     master. Whoever queues while somebody writes leaves the writing to him.
//   - The reader (read.go) waits for all sockets at once, takes replies off the
//     masters' queues and counts them, and alone takes a connection away.
//
// Lock order: a Lock's own mutex, then Engine.mu, then a connection's.
//
// # Invariants
//
//   - What must have a reader has one: while a caller waits, while bytes are
//     unsent, and while Close drains. (rest is called wherever the role is left
//     free or something is queued without waiting.) Replies that nobody waits
//     for are read by the tick.
//   - A round is decided exactly once.
//   - A round is not used again while a master owes it a reply or its caller
//     has it.
//   - The bytes for a master and its queue of replies have the same order: both
//     grow in expect, under the mutex.
//   - A vote counts for the round that is at the head of its master's queue, on
//     the connection that it came on. A stream that is out of step (a reply
//     that nobody asked for, or that the command cannot have) ends the connection.
//   - A release never overtakes its SET: same connection, queued behind it; or,
//     if the connection was lost, behind a CLIENT KILL of the old one. Where that
//     is refused, a release that finds nothing is owed, until the SET could not
//     come any more.
//   - Close settles every round that waits.
//
// # Measured
//
// What the design rests on was measured with prototypes and is stated beside
// the code that does it. Deviations from it, and why:
//
//   - A connection's descriptor is not reference-counted. Only the reader
//     closes it, and a small mutex of the connection, held across a
//     non-blocking send, keeps the writer out meanwhile.
//   - A caller that can be cancelled and reads for itself does not arm
//     context.AfterFunc, which allocates two to six times. It looks at its
//     context every millisecond of its park; at masters 3 ms away that is three
//     wake-ups in a round, and the call still ends within 2 ms.
//   - Callers that a pass of the reader decides are woken together at its end,
//     not one by one: 1.2 × the locks per second at 128 callers.
//   - A batch is not bounded; what one system call sends of it is (64 KiB). The
//     callers that wait bound the batch.
//   - A master whose socket does not take everything gets no new locks and no
//     extensions until it does: it would not answer in time, and what waits for
//     it stays bounded in bytes.
package engine
