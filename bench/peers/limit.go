package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// limit is what the servers can do when nobody waits for anything: commands per
// second and server, all servers at once.
type limit struct {
	Set     float64 `json:"set_per_second"`
	Release float64 `json:"release_per_second"`
	Pairs   float64 `json:"pairs_per_second"`
}

const (
	limitPipeline    = 128
	limitConnections = 4
	// limitPerSecond is how many commands a second of -duration means.
	limitPerSecond = 100_000
	// limitWithin bounds one run of redis-benchmark.
	limitWithin = time.Minute
)

// nearLimit reports whether the servers' limit says anything about the workload.
func (w workload) nearLimit() bool {
	return w.Task == pairing && w.Fault == healthy && w.Callers > 1 && w.Masters == standardMasters
}

// findBenchmark returns the benchmark program that is installed, or "".
func findBenchmark() string {
	for _, name := range []string{"redis-benchmark", "valkey-benchmark"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// measureLimit runs redis-benchmark on the standard masters at once. The servers
// are empty before and after it.
func (b *bench) measureLimit(ctx context.Context) (l limit, err error) {
	addrs := b.masters.addrs()[:standardMasters]
	defer func() {
		for i := range addrs {
			err = errors.Join(err, b.masters.clear(i))
		}
	}()
	var sha string
	for _, addr := range addrs {
		w, err := dialWire(addr)
		if err != nil {
			return l, err
		}
		sha, err = w.do("SCRIPT", "LOAD", floorReleaseScript)
		w.close()
		if err != nil {
			return l, err
		}
	}
	n := max(int(limitPerSecond*b.opts.duration.Seconds()), 1000)
	const random, value = "lock__rand_int__", "q7mX2sR9dLkP0aZtYbEw7mX2sR9"
	ms := strconv.FormatInt(b.opts.ttl.Milliseconds(), 10)
	if l.Set, err = benchmarkAll(ctx, addrs, n, "SET", random, value, "NX", "PX", ms); err != nil {
		return l, err
	}
	if l.Release, err = benchmarkAll(ctx, addrs, n, "EVALSHA", sha, "1", random, value); err != nil {
		return l, err
	}
	l.Pairs = 1 / (1/l.Set + 1/l.Release)
	return l, nil
}

// benchmarkAll returns how many of the commands each server executes in a second
// when all are as busy: the rate of the slowest, whose time is that of all.
func benchmarkAll(ctx context.Context, addrs []string, n int, command ...string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limitWithin)
	defer cancel()
	rates, errs := make([]float64, len(addrs)), make([]error, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { rates[i], errs[i] = benchmark(ctx, addr, n, command) })
	}
	wg.Wait()
	slowest := rates[0]
	for _, r := range rates {
		slowest = min(slowest, r)
	}
	return slowest, errors.Join(errs...)
}

func benchmark(ctx context.Context, addr string, n int, command []string) (float64, error) {
	host, port, _ := strings.Cut(addr, ":")
	args := []string{
		"-h", host, "-p", port, "--csv",
		"-n", strconv.Itoa(n), "-r", strconv.Itoa(n),
		"-P", strconv.Itoa(limitPipeline), "-c", strconv.Itoa(limitConnections),
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, findBenchmark(), append(args, command...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return parseBenchmark(out)
}

// parseBenchmark reads the rate from redis-benchmark's CSV: a line of headings,
// and one with the command and its rate.
func parseBenchmark(out []byte) (float64, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.FieldsPerRecord = -1
	records, err := r.ReadAll()
	if err != nil {
		return 0, err
	}
	if len(records) == 0 || len(records[len(records)-1]) < 2 {
		return 0, fmt.Errorf("no rate in %q", out)
	}
	return strconv.ParseFloat(records[len(records)-1][1], 64)
}
