package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

func TestDrainWaitsForAllThatWasSent(t *testing.T) {
	const commands = 20_000
	onBoth(t, 2, func(t *testing.T, m masters) {
		conn, err := net.Dial("tcp", m.addrs()[1])
		require.NoError(t, err)
		defer conn.Close()
		var sent []byte
		for i := range commands {
			sent = resp.AppendCommand(sent, "SET", key(i, 10), "v", "PX", "60000")
		}
		_, err = conn.Write(sent)
		require.NoError(t, err)
		// Nobody has read a reply.
		require.Equal(t, []int64{0, commands}, keysLeft(t, m))
	})
}

func TestDrainWaitsForWhatIsOnTheWay(t *testing.T) {
	m, err := startEmbedded(1)
	require.NoError(t, err)
	defer m.close()
	left := 50
	begin := time.Now()
	last, err := drain(t.Context(), m, []int{0}, func() bool { left--; return left > 0 })
	require.NoError(t, err)
	require.LessOrEqual(t, left, 0)
	require.GreaterOrEqual(t, last.Sub(begin), 40*lookEvery)
	require.Less(t, last, time.Now().Add(-(stillFor-1)*lookEvery), "the wait to be sure is nobody's")
}

func TestFaults(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, m masters) {
		ping := func() error {
			conn, err := net.DialTimeout("tcp", m.addrs()[0], time.Second)
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := conn.Write([]byte("PING\r\n")); err != nil {
				return err
			}
			_, err = conn.Read(make([]byte, 16))
			return err
		}
		require.NoError(t, ping())
		require.NoError(t, m.freeze(0))
		require.ErrorIs(t, ping(), os.ErrDeadlineExceeded)
		require.NoError(t, m.thaw(0))
		require.NoError(t, ping())
		require.NoError(t, m.kill(0))
		require.Error(t, ping())
		require.NoError(t, m.restart(0))
		require.NoError(t, ping())
		n, err := m.left(0)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestOnlyOtherPeoplesCommandsAreCounted(t *testing.T) {
	require.Equal(t, int64(12), countCalls("# Commandstats\r\n"+
		"cmdstat_set:calls=7,usec=27,usec_per_call=3.86,rejected_calls=0,failed_calls=0\r\n"+
		"cmdstat_info:calls=100,usec=27\r\n"+
		"cmdstat_client|list:calls=100,usec=27\r\n"+
		"cmdstat_ping:calls=100,usec=27\r\n"+
		"cmdstat_evalsha:calls=5,usec=27\r\n"))
}

func TestQueues(t *testing.T) {
	const idle = "id=7 addr=127.0.0.1:1 qbuf=0 qbuf-free=20474 obl=0 oll=0 omem=0 cmd=set\n"
	self := strings.Replace(strings.Replace(idle, "id=7", "id=3", 1), "qbuf=0", "qbuf=26", 1)
	require.True(t, queuesEmpty(self+idle, "3"))
	require.False(t, queuesEmpty(self+idle, "7"))
	for _, field := range []string{"qbuf", "obl", "oll", "omem"} {
		require.False(t, queuesEmpty(self+strings.Replace(idle, " "+field+"=0", " "+field+"=5", 1), "3"), field)
	}
}

func TestRepliesOfTheSlowMasterAreLateAndNoneIsLost(t *testing.T) {
	m, err := startEmbedded(1)
	require.NoError(t, err)
	defer m.close()
	const late = 20 * time.Millisecond
	d, err := delay(m.addrs()[0], late)
	require.NoError(t, err)
	w, err := dialWire(d.addr())
	require.NoError(t, err)
	defer w.close()
	begin := time.Now()
	_, err = w.do("SET", "k", strings.Repeat("v", 500_000))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), late)
	text, err := w.do("GET", "k")
	require.NoError(t, err)
	require.Len(t, text, 500_000)
	require.Eventually(t, d.idle, time.Second, time.Millisecond)
	d.close()
	_, err = w.do("PING")
	require.Error(t, err)
}

func TestHandovers(t *testing.T) {
	at := func(begin, end int64) tenure { return tenure{Begin: begin, End: end} }
	h := handoversOf([]tenure{at(300, 400), at(0, 100), at(150, 250), at(900, 1000)}, 900)
	require.Zero(t, h.overlaps)
	require.Equal(t, uint64(2), h.latency.total, "the last ended too late to count")
	require.Equal(t, time.Duration(50), h.latency.max)

	h = handoversOf([]tenure{at(0, 100), at(99, 150)}, 900)
	require.Equal(t, int64(1), h.overlaps)
}

func TestWhoHasReleasedAwaitsTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	mine, err := openBoard(path)
	require.NoError(t, err)
	defer mine.file.Close()
	others, err := openBoard(path)
	require.NoError(t, err)
	defer others.file.Close()

	n, err := mine.acquired()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, mine.awaitNext(ctx, n), "it ends with the context")
	n2, err := others.acquired()
	require.NoError(t, err)
	require.Equal(t, int64(2), n2)
	require.NoError(t, mine.awaitNext(t.Context(), n))
}

// nolock grants everything to everybody.
type nolock struct{}

func (nolock) try(context.Context, string) (lock, error)   { return nolock{}, nil }
func (nolock) wait(context.Context, string) (lock, error)  { return nolock{}, nil }
func (nolock) extend(context.Context, time.Duration) error { return nil }
func (nolock) release(context.Context) error               { return nil }
func (nolock) close()                                      {}

// sieve refuses as it should, but stores nothing.
type sieve struct {
	nolock
	second bool
}

func (s sieve) try(context.Context, string) (lock, error) {
	if s.second {
		return nil, errRefused
	}
	return s, nil
}

func TestCheckFindsWhatDoesNotLock(t *testing.T) {
	m, err := startEmbedded(3)
	require.NoError(t, err)
	defer m.close()
	j := job{Addrs: m.addrs(), Callers: 1, KeySize: 20, TTL: time.Minute}

	err = check(implementation{open: func(setup) (locker, error) { return nolock{}, nil }}, j)
	require.ErrorContains(t, err, "a second client was not refused")

	opened := 0
	err = check(implementation{open: func(setup) (locker, error) { opened++; return sieve{second: opened > 1}, nil }}, j)
	require.ErrorContains(t, err, "held, but not on a quorum: 0 of 3 keys")

	err = check(implementation{open: func(setup) (locker, error) { return nil, errors.New("no way") }}, j)
	require.ErrorContains(t, err, "no way")
}

func TestAClientThatCannotConnectIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	p, err := startClient(t.Context(), job{Impl: nameFloor, Task: pairing, Addrs: []string{ln.Addr().String()}, Callers: 1, TTL: time.Second})
	require.NoError(t, err)
	defer p.end()
	_, err = p.await(stateReady, time.Minute)
	require.ErrorContains(t, err, "connection refused")
}

func TestTheLimitIsReadFromTheLastLine(t *testing.T) {
	rate, err := parseBenchmark([]byte("\"test\",\"rps\"\n\"SET a,b\",\"123456.78\",\"0.1\"\n"))
	require.NoError(t, err)
	require.Equal(t, 123456.78, rate)
	for _, bad := range []string{"", "no", "a,b\n"} {
		_, err := parseBenchmark([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestProgressRewritesOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &progress{w: &b, terminal: true, stop: func() {}}
		p.begin(4)
		p.next("first")
		time.Sleep(progressEvery * 3 / 2)
		p.next("second")
		time.Sleep(progressEvery / 2)
		p.next(strings.Repeat("x", 200))
		time.Sleep(progressEvery / 2)
		p.clear()
		require.NotContains(t, b.String(), "\n")
		var lines []string
		for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\r"), "\r") {
			if line != "" {
				require.Len(t, line, lineWidth, "it covers the line before")
				lines = append(lines, strings.TrimRight(line, " "))
			}
		}
		require.Equal(t, []string{"  0 % 0s: first", "  0 % 0s: first", " 25 % 0s, 1s to go: second"}, lines[:3])
		require.Empty(t, lines[len(lines)-1])
	})
}

func TestProgressIsSilentElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b)
	p.begin(1)
	p.next("x")
	p.clear()
	require.Empty(t, b.String())
}
