// Command peers measures redlock side by side with other Go lock libraries: on
// the same servers, in the same run, in turns.
//
//	go run -C bench/peers .                          # the comparison, about a quarter of an hour
//	go run -C bench/peers . -workloads a,b -impl redlock,redsync-rueidis -turns 3
//	go run -C bench/peers . -workloads masters,callers,keys -impl redlock,floor
//	go run -C bench/peers . -picture latency.svg -json
//	go run -C bench/peers . -short                   # seconds; fails on errors, not on speed
//
// It starts five redis-server processes on loopback (or valkey-server, or what
// $REDLOCK_SERVER_BIN names; where there is none, embedded fakes, and the report
// says so). First it proves of each implementation that it locks: a second client
// is refused, the lock is on a quorum, it is gone after the release. Then each
// round gives each implementation one turn at each workload, in an order that
// rotates from round to round, so that whatever drifts in the machine meets all
// of them; what is reported are medians over the turns.
//
// A turn is a client process of its own (several in workload h), with a new
// client in it: it connects, warms up, works for -duration, and ends when all
// servers stand still, that is, when they have answered everything that was sent.
// Replies that a caller did not wait for are part of the work: the rate is over
// the time until then, and processor time and allocations are counted until then.
// What is begun before the end of the turn may be ended for up to a second more;
// what takes longer is an error, and its latency, that counts too, is cut off
// there.
//
// Peers are configured as their own documentation says; the report prints it.
// Where several settings are documented, the one that serves them better is used.
// Contexts have no deadline. Keys are distinct for each caller, but in c and h.
//
// # What is counted
//
// The latency is that of an acquire and its release (a, b, e, f, g), of an attempt
// that is refused (c), of an extension (d), or from the call of one holder's
// release to the return of the next holder's acquire (h: all others wait meanwhile,
// and who has released stays away until another has the key; two holders at once
// fail the turn). Percentiles are right to
// 3.2 % and never too low. Processor time is what getrusage says of the client
// process, user and system; allocations are all of that process; goroutines
// include the callers'. The ratio columns compare with the best library that locks
// on a quorum, as redlock does; a lock on one master is another thing.
//
// The servers' own limit is measured by redis-benchmark (if it is installed), with
// pipelining, on all servers at once: SET key value NX PX ttl, and then the
// release script, on random keys out of as many as there are commands. The limit
// is what the two take together.
//
// In workload e, f and g the last of five masters is frozen, slow or dead from
// before the first measured lock until after the last. The slow one is behind a
// proxy that keeps its replies back.
//
// The exit code is 0 if everything could be measured, 1 if not (with -short also
// if redlock or the floor had errors, or another library took no lock at all in
// health), and 2 for wrong flags. SIGINT or SIGTERM ends the run early; what has
// been measured by then is printed.
//
// # JSON
//
// With -json the output is one object. Names that end in _ns are nanoseconds.
//
//	machine, servers, versions, settings, notes  text for people
//	real              bool: the masters are real servers
//	turns, duration_ns, ttl_ns, interrupted
//	limit             the servers' limit; null if it was not measured:
//	  set_per_second, release_per_second, pairs_per_second
//	workloads         one object each: name, title, unit, task, fault, masters,
//	                  callers, processes, key_bytes, and
//	  rows              one for each implementation:
//	    impl, mark        its name, and what sets it apart
//	    turns             how many there were
//	    ops               how many locks (or what unit says), in all turns
//	    per_second        of them; this and what follows are medians over the turns
//	    p50_ns, p99_ns, p99_9_ns
//	    max_ns            the longest of all turns
//	    errors            in all turns
//	    unfinished        those of the errors that outlasted the turn
//	    first_error       text of the first, or why a turn could not be measured
//	    failed_turns      how many could not be measured
//	    cpu_ns, allocs, bytes
//	                      of the client, for each of ops
//	    goroutines        at the peak of all turns
//	    drained_ns        how long the masters needed after the callers' end
//	    left              keys left behind without an owner, in all turns
//	    rate_ratio, p50_ratio
//	                      to the best library with a quorum; 0 if there is none
//	    rates, p50s_ns, p99s_ns
//	                      of each turn
//	targets           what redlock wants to show: text, bound, measured, met
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if n, ok := asMasters(); ok {
		os.Exit(serveMasters(n, os.Stdin, os.Stdout))
	}
	if os.Getenv(jobEnv) != "" {
		os.Exit(serveClient(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. The end of ctx ends it early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "peers: %v (-h shows all flags)\n", err)
		return exitUsage
	}
	if err := opts.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "peers: %v\n", err)
		return exitFailed
	}
	return 0
}
