package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/goredlock/redlock"
)

const (
	// embeddedMasters is how many are started when none are given.
	embeddedMasters = 5
	// maxCallers bounds the memory: each caller has a histogram of 8 KiB.
	maxCallers = 10_000
	// readyTimeout is longer than the client's time-out for a dial, so that the
	// error says what became of the dials.
	readyTimeout = 3 * time.Second
)

// options is what the command line asks for.
type options struct {
	masters  []string // none: embedded ones
	callers  []int    // one row for each
	duration time.Duration
	ttl      time.Duration
	json     bool

	ready time.Duration // how long to wait for a quorum of masters
}

// parse reads the arguments. An error names the flag, and never repeats what may
// be a password. For -h it is flag.ErrHelp.
func parse(args []string) (options, error) {
	opts := options{ready: readyTimeout}
	fs, masters := opts.flags()
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is set by flags", fs.Arg(0))
	}
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "masters" { // an unset variable in a script must not become a run on embedded ones
			for addr := range strings.SplitSeq(*masters, ",") {
				opts.masters = append(opts.masters, strings.TrimSpace(addr))
			}
		}
	})
	return opts, opts.check()
}

// flags makes the flags that set opts, all but the masters: their text is
// returned, because package flag would repeat a wrong one in its error.
func (opts *options) flags() (fs *flag.FlagSet, masters *string) {
	fs = flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	masters = fs.String("masters", "", "`addresses` of the masters, separated by commas: host:port, unix:///path or redis://user:password@host:port/db (default: five embedded ones)")
	opts.callers = []int{1, 16, 128}
	fs.Func("callers", "`numbers` of callers, separated by commas, one row for each (default 1,16,128)", func(s string) (err error) {
		opts.callers, err = parseCallers(s)
		return err
	})
	fs.DurationVar(&opts.duration, "duration", 2*time.Second, "`time` to measure for each row")
	fs.DurationVar(&opts.ttl, "ttl", 10*time.Second, "`time` to live of the locks")
	fs.BoolVar(&opts.json, "json", false, "print JSON (go doc ./bench describes it)")
	return fs, masters
}

func parseCallers(s string) ([]int, error) {
	var callers []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", part)
		}
		if n < 1 || n > maxCallers {
			return nil, fmt.Errorf("%d is not between 1 and %d", n, maxCallers)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

// check says what the library would refuse, before anything is started. The
// library itself is asked, with a client that reaches nobody.
func (opts options) check() error {
	if opts.duration <= 0 {
		return fmt.Errorf("invalid value %v for flag -duration: it must be positive", opts.duration)
	}
	masters := opts.masters
	if masters == nil {
		masters = []string{"127.0.0.1:6379"}
	}
	client, err := redlock.New(redlock.Config{
		Masters: masters,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("not dialed for a check")
		},
	})
	if err != nil {
		return fmt.Errorf("invalid value for flag -masters: %w", err)
	}
	defer client.Close()

	// Nothing is sent under a context that is done; but the arguments are looked
	// at first, and what is wrong with them is not a *QuorumError.
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var failed *redlock.QuorumError
	if _, err := client.TryAcquire(done, resource(0), opts.ttl); !errors.As(err, &failed) {
		return fmt.Errorf("invalid value %v for flag -ttl: %w", opts.ttl, err)
	}
	return nil
}

// usage prints what -h asks for.
func usage(w io.Writer) {
	fs, _ := new(options).flags()
	fmt.Fprint(w, "usage: go run ./bench [flags]\n\n"+
		"Takes and releases locks, and prints how many, how fast and at what cost.\n"+
		"Without flags it needs no server. go doc ./bench tells more.\n\n")
	fs.SetOutput(w)
	fs.PrintDefaults()
}
