package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
	"github.com/goredlock/redlock/resp"
)

// The benchmarks run on real servers where the machine has them, and otherwise
// on fakeredis in another process; each name says which. They take the masters
// out of the allocations in both cases.

const (
	maxServers = 9
	ttl        = 10 * time.Second
)

var servers struct {
	once  sync.Once
	addrs []string
	kind  string
	err   error
	stop  func()
}

// startServers starts all that any benchmark needs, once. Those that a benchmark
// does not use cost it nothing.
func startServers() {
	bin, found := redisproc.Find()
	switch {
	case found:
		processes, err := redisproc.Launch(maxServers, "")
		servers.kind, servers.err = "redis", err
		servers.addrs = redisproc.Addrs(processes)
		servers.stop = func() {
			for _, p := range processes {
				_ = p.Close()
			}
		}
	case bin != "":
		servers.err = fmt.Errorf("%s cannot be run", bin)
	default:
		m, err := startChild(maxServers)
		servers.kind, servers.err = "fake", err
		if err == nil {
			servers.addrs, servers.stop = m.dial, m.stop
		}
	}
}

// stopServers ends what startServers has started.
func stopServers() {
	if servers.stop != nil {
		servers.stop()
	}
}

// on runs a benchmark on that many masters.
func on(b *testing.B, masters int, name string, f func(b *testing.B, cfg redlock.Config)) {
	b.Helper()
	servers.once.Do(startServers)
	if servers.err != nil {
		b.Fatal(servers.err)
	}
	// A machine that stalls for 50 ms spoils one sample, not the benchmark.
	cfg := redlock.Config{Masters: servers.addrs[:masters], RoundTimeout: ttl / 4}
	b.Run(fmt.Sprintf("server=%s/masters=%d%s", servers.kind, masters, name), func(b *testing.B) {
		b.ReportAllocs()
		f(b, cfg)
	})
}

// connect makes a client and waits until it can be used.
func connect(b *testing.B, cfg redlock.Config) *redlock.Client {
	b.Helper()
	client, err := redlock.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(b.Context(), readyTimeout)
	defer cancel()
	if err := client.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	return client
}

// share lets n goroutines make the b.N calls of f, each with its own number, and
// stops the timer when all replies have come.
func share(b *testing.B, client *redlock.Client, n int, f func(caller int) error) {
	b.Helper()
	var taken atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for caller := range n {
		wg.Go(func() {
			for taken.Add(1) <= int64(b.N) {
				if err := f(caller); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	_ = client.Close() // never fails; waits for the stragglers
	b.StopTimer()
}

func BenchmarkTryAcquireRelease(b *testing.B) {
	for _, tc := range []struct{ masters, callers int }{{1, 1}, {3, 1}, {5, 1}, {7, 1}, {9, 1}, {5, 16}, {5, 128}} {
		on(b, tc.masters, fmt.Sprintf("/callers=%d", tc.callers), func(b *testing.B, cfg redlock.Config) {
			client := connect(b, cfg)
			crew := newCrew(client, tc.callers, ttl)
			share(b, client, tc.callers, func(i int) error {
				c := crew.callers[i]
				begin := time.Now()
				err := c.pair(context.Background())
				c.latency.add(time.Since(begin))
				return err
			})
			r := crew.row(b.Elapsed(), 0)
			b.ReportMetric(float64(r.P50), "p50-ns")
			b.ReportMetric(float64(r.P99), "p99-ns")
		})
	}
}

func BenchmarkExtend(b *testing.B) {
	on(b, 5, "", func(b *testing.B, cfg redlock.Config) {
		client := connect(b, cfg)
		lock, err := client.TryAcquire(b.Context(), b.Name(), ttl)
		if err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		for range b.N {
			if err := lock.Extend(context.Background(), ttl); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := lock.Release(); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRefused is an attempt at what another client holds: the refusal, and
// the clean-up behind it.
func BenchmarkRefused(b *testing.B) {
	on(b, 5, "", func(b *testing.B, cfg redlock.Config) {
		lock, err := connect(b, cfg).TryAcquire(b.Context(), b.Name(), time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		client := connect(b, cfg)
		share(b, client, 1, func(int) error {
			_, err := client.TryAcquire(context.Background(), lock.Resource(), ttl)
			if !errors.Is(err, redlock.ErrLocked) {
				return fmt.Errorf("want ErrLocked: %w", err)
			}
			return nil
		})
		if err := lock.Release(); err != nil {
			b.Fatal(err)
		}
	})
}

const (
	key   = "orders:42:invoice"
	value = "q7mX2sR9dLkP0aZtYbEw7mX2sR9"
	sha   = "e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4"
)

// BenchmarkEncode is one round's command, which is sent to all masters.
func BenchmarkEncode(b *testing.B) {
	for _, tc := range []struct {
		name    string
		command []string
	}{
		{"acquire", []string{"SET", key, value, "NX", "PX", "10000"}},
		{"release", []string{"EVALSHA", sha, "1", key, value}},
		{"extend", []string{"EVALSHA", sha, "1", key, value, "10000"}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				dst = resp.AppendCommand(dst[:0], tc.command...)
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

// BenchmarkDecode is one master's reply.
func BenchmarkDecode(b *testing.B) {
	for _, tc := range []struct{ name, reply string }{{"granted", "+OK\r\n"}, {"refused", "$-1\r\n"}, {"released", ":1\r\n"}} {
		b.Run(tc.name, func(b *testing.B) {
			buf := []byte(tc.reply)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				var v resp.Value
				if n, err := v.Decode(buf); n != len(buf) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
