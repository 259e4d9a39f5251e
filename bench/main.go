// Command bench measures the main job of redlock: to take a lock and to release
// it, with few callers and with many.
//
//	go run ./bench                                       # five embedded masters, a few seconds
//	go run ./bench -masters 10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379
//	go run ./bench -callers 1,512 -duration 10s -ttl 30s -json
//
// Without -masters it starts five masters of package fakeredis, in a process of
// their own, so that they are not among the client's allocations (but they share
// its processors: real masters on other machines give other numbers). With
// -masters it uses those and starts nothing; an address has any form that
// redlock.Config.Masters takes. It writes the keys bench:0, bench:1 and so on.
//
// There is one row for each number of callers. All callers of a row share one
// new Client, and each takes and releases a resource of its own: nobody is
// refused. A row begins with a warm-up that is not counted. The latency is that
// of one TryAcquire together with its Release; percentiles are right to 3.2 %,
// and never too low. The rate is over the time until the last reply has come,
// also from the masters that the quorum did not need (Client.Close waits for
// them, for at most a RoundTimeout): without that they would fall behind unseen.
// Allocations are those of the whole process while the callers run; their context
// can be cancelled, as a server's can, so that a round which is undecided after
// 2 ms has more of them.
//
// A pair that fails is counted as an error and not as a lock, and its caller
// pauses for a millisecond. The Client has the library's defaults, so that a
// machine on which a quorum of replies takes longer than Config.RoundTimeout
// shows errors. SIGINT or SIGTERM ends the run early; what has been
// measured by then is printed. The exit code is 0 if locks were taken, 1 if not
// or if no quorum of masters could be reached, and 2 for wrong flags.
//
// On a terminal, standard error shows the progress.
//
// # JSON
//
// With -json the output is one object. Names that end in _ns are nanoseconds.
//
//	embedded          bool: the masters are package fakeredis
//	in_process        bool: they run in the client's process, and allocs_per_lock counts them too
//	masters           addresses, without credentials
//	go, os, arch      what the client was built with and for
//	cpus, gomaxprocs  how many processors the machine has, and the client uses
//	ttl_ns            of every lock
//	duration_ns       asked for each row
//	interrupted       bool: the last row is shorter, or rows are missing
//	rows              one object for each number of callers:
//	  callers           how many there were
//	  locks             how many were taken and released
//	  elapsed_ns        from the first caller's start until the last reply
//	  locks_per_second  locks / elapsed
//	  p50_ns, p99_ns, p99_9_ns, max_ns
//	                    latency of a pair; 0 without locks
//	  allocs_per_lock   allocated objects for each pair
//	  errors            pairs that failed
//	  first_error       text of the first; missing if there is none
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
		fmt.Fprintf(stderr, "bench: %v (-h shows all flags)\n", err)
		return exitUsage
	}
	return opts.run(ctx, stdout, stderr)
}

func (opts options) run(ctx context.Context, stdout, stderr io.Writer) int {
	m, err := opts.start(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFailed
	}
	defer m.stop()

	r := newReport(opts, m)
	err = opts.measureAll(ctx, r, newProgress(stderr))
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		err = nil
		if len(r.Rows) == 0 {
			err = errors.New("interrupted before anything was measured")
		}
	}
	if len(r.Rows) > 0 {
		if werr := r.write(stdout, opts.json); werr != nil {
			err = errors.Join(err, werr)
		}
		if r.locks() == 0 {
			err = errors.Join(err, errors.New("no lock could be taken"))
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFailed
	}
	return 0
}

// measureAll adds a row for each number of callers to r, up to the first that
// cannot be measured. A row that was interrupted counts if it has locks.
func (opts options) measureAll(ctx context.Context, r *report, p *progress) error {
	defer p.clear()
	for i, callers := range opts.callers {
		p.row(i+1, len(opts.callers), callers)
		row, err := opts.measure(ctx, r.dial, callers, p)
		if err != nil {
			return err
		}
		if ctx.Err() == nil || row.Locks > 0 {
			r.Rows = append(r.Rows, row)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}
