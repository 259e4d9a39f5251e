package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// bench is one run.
type bench struct {
	opts     options
	masters  masters
	progress *progress
	samples  map[cell][]sample
	failures map[cell][]error // of turns that could not be measured
	limits   []limit
	notes    []string
}

// cell is one row of one table.
type cell struct{ workload, impl string }

func (opts options) run(ctx context.Context, stdout, stderr io.Writer) error {
	m, err := startMasters(opts.masters())
	if err != nil {
		return err
	}
	defer m.close()
	return opts.runOn(ctx, m, stdout, stderr)
}

func (opts options) runOn(ctx context.Context, m masters, stdout, stderr io.Writer) error {
	b := &bench{
		opts: opts, masters: m, progress: newProgress(stderr),
		samples: make(map[cell][]sample), failures: make(map[cell][]error),
	}
	if err := b.leaveOut(); err != nil {
		return err
	}
	err := b.checkAll(ctx)
	if err == nil {
		b.measureAll(ctx)
	}
	b.progress.clear()
	if ctx.Err() != nil && len(b.samples) == 0 {
		return errors.New("interrupted before anything was measured")
	}
	if err != nil {
		return err
	}
	r := b.report()
	r.Interrupted = ctx.Err() != nil
	err = r.write(stdout, opts.json)
	if opts.picture != "" {
		err = errors.Join(err, b.draw(opts.picture))
	}
	return errors.Join(err, b.verdict())
}

// leaveOut takes those out of the comparison that cannot work on the masters
// there are.
func (b *bench) leaveOut() error {
	if b.masters.real() {
		return nil
	}
	b.notes = append(b.notes, binaryMissing)
	b.opts.impls = slices.DeleteFunc(slices.Clone(b.opts.impls), func(impl implementation) bool {
		if impl.needs != "" {
			b.notes = append(b.notes, fmt.Sprintf("%s is left out: the embedded masters have no %s", impl.name, impl.needs))
		}
		return impl.needs != ""
	})
	if len(b.opts.impls) == 0 {
		return errors.New(strings.Join(b.notes, "; "))
	}
	return nil
}

// checkAll proves of all implementations that they lock.
func (b *bench) checkAll(ctx context.Context) error {
	b.progress.begin(len(b.opts.impls))
	var errs []error
	for _, impl := range b.opts.impls {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.progress.next("checking " + impl.name)
		if err := b.check(ctx, impl); err != nil {
			errs = append(errs, fmt.Errorf("%s does not lock: %w", impl.name, err))
		}
	}
	return errors.Join(errs...)
}

// check lets a client process check an implementation, and removes what that
// leaves behind.
func (b *bench) check(ctx context.Context, impl implementation) (err error) {
	w := pairs("check", 1)
	w.Task, w.Masters = checking, min(standardMasters, len(b.masters.addrs()))
	t := &turn{bench: b, w: w, impl: impl, addrs: b.masters.addrs()[:w.Masters], onTheWay: func() bool { return false }}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	p, err := startClient(ctx, t.job())
	if err != nil {
		return err
	}
	t.processes = append(t.processes, p)
	_, err = p.await(stateResult, startWithin)
	return err
}

// measureAll gives everybody its turns: in each round one at each workload. The
// order rotates, so that nobody always comes first, or after the same one.
func (b *bench) measureAll(ctx context.Context) {
	plan := b.plan()
	b.progress.begin(len(plan))
	for _, step := range plan {
		b.progress.next(fmt.Sprintf("round %d of %d, %s, %s", step.round+1, b.opts.turns, step.workload.Name, step.name()))
		err := b.step(ctx, step)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c := cell{step.workload.Name, step.name()}
			b.failures[c] = append(b.failures[c], err)
		}
	}
}

// step is one turn in the plan. With impl nil it is redis-benchmark's.
type step struct {
	round    int
	workload workload
	impl     *implementation
}

const nameLimit = "redis-benchmark"

func (s step) name() string {
	if s.impl == nil {
		return nameLimit
	}
	return s.impl.name
}

// plan is all turns in their order.
func (b *bench) plan() (plan []step) {
	withLimit := b.masters.real() && slices.ContainsFunc(b.opts.workloads, workload.nearLimit) && findBenchmark() != ""
	for round := range b.opts.turns {
		for _, w := range b.opts.workloads {
			for i := range b.opts.impls {
				impl := &b.opts.impls[(i+round)%len(b.opts.impls)]
				if w.measures(*impl) {
					plan = append(plan, step{round, w, impl})
				}
			}
		}
		if withLimit {
			plan = append(plan, step{round, workload{Name: "limit"}, nil})
		}
	}
	return plan
}

func (b *bench) step(ctx context.Context, s step) error {
	if s.impl == nil {
		l, err := b.measureLimit(ctx)
		if err == nil {
			b.limits = append(b.limits, l)
		}
		return err
	}
	sample, err := b.turn(ctx, s.workload, *s.impl)
	if err == nil {
		c := cell{s.workload.Name, s.impl.name}
		b.samples[c] = append(b.samples[c], sample)
	}
	return err
}

// verdict is the error of a run in which something could not be measured, or,
// if it is a short one, in which what must not fail has failed.
func (b *bench) verdict() error {
	var errs []error
	for _, w := range b.opts.workloads {
		for _, impl := range b.opts.impls {
			c := cell{w.Name, impl.name}
			for _, err := range b.failures[c] {
				errs = append(errs, fmt.Errorf("%s, %s: %w", w.Name, impl.name, err))
			}
			if b.opts.short {
				errs = append(errs, b.strict(w, impl))
			}
		}
	}
	for _, err := range b.failures[cell{"limit", nameLimit}] {
		errs = append(errs, fmt.Errorf("%s: %w", nameLimit, err))
	}
	return errors.Join(errs...)
}

// strict says what a short run does not accept. What took too long is no error
// there. Errors of other libraries are their own, and some are expected; but
// without any lock there was something wrong with how they were used.
func (b *bench) strict(w workload, impl implementation) error {
	for _, s := range b.samples[cell{w.Name, impl.name}] {
		switch {
		case s.Errors > s.Unfinished && (impl.kind == ours || impl.name == nameFloor):
			return fmt.Errorf("%s, %s: %d errors; the first: %s", w.Name, impl.name, s.Errors, s.FirstError)
		case s.Ops+s.Unfinished == 0 && w.Fault == healthy && w.Task != contended:
			return fmt.Errorf("%s, %s: nothing succeeded: %s", w.Name, impl.name, s.FirstError)
		}
	}
	return nil
}
