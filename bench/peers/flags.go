package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxCallers bounds the memory of a client process.
	maxCallers = 10_000
	// maxWarmUp bounds the part of a turn that is not counted: in it all
	// connections are made, and the pools filled.
	maxWarmUp = 250 * time.Millisecond
	// maxGrace is how long what has begun may take after a turn's end. What takes
	// longer waits for a frozen master, and would wait as long as that is frozen.
	maxGrace = time.Second
)

// options is what the command line asks for.
type options struct {
	impls     []implementation
	workloads []workload
	callers   []int // of workload b
	duration  time.Duration
	turns     int
	ttl       time.Duration
	short     bool
	json      bool
	picture   string
}

// standardWorkloads is the comparison; the others show how the cost grows.
const standardWorkloads = "a,b,c,d,e,f,g,h"

// parse reads the arguments. For -h the error is flag.ErrHelp.
func parse(args []string) (options, error) {
	var opts options
	fs, impls, workloads := opts.flags()
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is set by flags", fs.Arg(0))
	}
	if opts.short {
		opts.shorten(fs)
	}
	var err error
	if opts.impls, err = choose(*impls); err != nil {
		return options{}, fmt.Errorf("invalid value for flag -impl: %w", err)
	}
	if opts.workloads, err = chooseWorkloads(*workloads, opts.callers); err != nil {
		return options{}, fmt.Errorf("invalid value for flag -workloads: %w", err)
	}
	return opts, opts.check()
}

func (opts *options) flags() (fs *flag.FlagSet, impls, workloads *string) {
	fs = flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	impls = fs.String("impl", "all", "`names` of implementations, separated by commas; a name means all that begin with it")
	workloads = fs.String("workloads", standardWorkloads, "`names` of workloads, separated by commas")
	opts.callers = []int{8, 64, 128, 512}
	fs.Func("callers", "`numbers` of callers in workload b, separated by commas (default 8,64,128,512)", func(s string) (err error) {
		opts.callers, err = parseCallers(s)
		return err
	})
	fs.DurationVar(&opts.duration, "duration", time.Second, "`time` to measure in each turn")
	fs.IntVar(&opts.turns, "turns", 5, "`number` of turns that each implementation has at each workload")
	fs.DurationVar(&opts.ttl, "ttl", 10*time.Second, "`time` to live of the locks")
	fs.BoolVar(&opts.short, "short", false, "a few seconds that prove that everything works: fails on errors, measures nothing")
	fs.BoolVar(&opts.json, "json", false, "print JSON (go doc describes it)")
	fs.StringVar(&opts.picture, "picture", "", "`file` for the latency distributions, .svg or .png")
	return fs, impls, workloads
}

// shorten sets what was not asked for otherwise.
func (opts *options) shorten(fs *flag.FlagSet) {
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["duration"] {
		opts.duration = 50 * time.Millisecond
	}
	if !given["turns"] {
		opts.turns = 1
	}
	if !given["callers"] {
		opts.callers = []int{8}
	}
}

func parseCallers(s string) (callers []int, err error) {
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

func (opts options) check() error {
	switch {
	case opts.duration <= 0:
		return fmt.Errorf("invalid value %v for flag -duration: it must be positive", opts.duration)
	case opts.turns <= 0:
		return fmt.Errorf("invalid value %d for flag -turns: it must be positive", opts.turns)
	case opts.ttl < time.Second: // rueidislock extends after half of it, redsync gives an attempt a twentieth
		return fmt.Errorf("invalid value %v for flag -ttl: it must be 1s at least", opts.ttl)
	}
	if ext := filepath.Ext(opts.picture); opts.picture != "" && ext != ".svg" && ext != ".png" {
		return fmt.Errorf("invalid value %q for flag -picture: it must end in .svg or .png", opts.picture)
	}
	return nil
}

// masters is how many the workloads need.
func (opts options) masters() int {
	return slices.MaxFunc(opts.workloads, func(a, b workload) int { return a.Masters - b.Masters }).Masters
}

// usage prints what -h asks for.
func usage(w io.Writer) {
	fs, _, _ := new(options).flags()
	fmt.Fprint(w, "usage: go run -C bench/peers . [flags]\n\n"+
		"Measures redlock side by side with other Go lock libraries, on the same servers\n"+
		"and in turns. go doc ./bench/peers tells more.\n\n")
	fs.SetOutput(w)
	fs.PrintDefaults()
	fmt.Fprint(w, "\nimplementations:\n")
	for _, impl := range implementations {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-28s%s", impl.name, impl.mark), " "))
	}
	fmt.Fprint(w, "\nworkloads:\n")
	for _, g := range groups {
		fmt.Fprintf(w, "  %-10s%s\n", g.name, g.about)
	}
}
