package conn

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// echo answers each command with its first argument.
func echo(p *peer) {
	for args := p.command(); args != nil; args = p.command() {
		p.say(bulk(args[1]))
	}
}

func command(args ...string) string { return string(resp.AppendCommand(nil, args...)) }

func TestRepliesComeInTheOrderOfTheCommands(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, echo)
		// Chunks of every kind: adjacent ranges, a gap, another buffer in between.
		a, b := command("ECHO", "a"), command("ECHO", "b")
		ab, bb := newCounted(a+a+"skipped"+a), newCounted(b+b)
		c.Append(&ab.Buffer, 0, len(a))
		c.Append(&ab.Buffer, len(a), 2*len(a))
		c.Append(&bb.Buffer, 0, len(b))
		c.Append(&ab.Buffer, 2*len(a)+7, 3*len(a)+7)
		c.Append(&bb.Buffer, len(b), 2*len(b))
		c.Append(&bb.Buffer, 5, 5) // nothing
		require.True(t, c.Pending())
		c.flush()
		require.False(t, c.Pending())
		for _, want := range []string{"a", "a", "b", "a", "b"} {
			require.Equal(t, want, string(c.next().Data))
		}
		require.Zero(t, ab.count()+bb.count(), "we still hold them")
		ab.Release()
		bb.Release()
		require.Equal(t, 1, ab.count())
		require.Equal(t, 1, bb.count())

		_, ok, err := c.Next()
		require.False(t, ok)
		require.NoError(t, err)
		n, err := c.Fill()
		require.Zero(t, n)
		require.NoError(t, err)
	})
}

func TestMoreChunksThanOneSystemCallTakes(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, echo)
		var buffers []*counted
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3 * maxGather {
			b := newCounted(command("ECHO", strings.Repeat("x", rng.IntN(3000))))
			c.Append(&b.Buffer, 0, len(b.B))
			b.Release()
			buffers = append(buffers, b)
		}
		go c.flushAll()
		for i := range buffers {
			want := string(buffers[i].B)
			require.Equal(t, want, command("ECHO", string(c.next().Data)))
		}
		for _, b := range buffers {
			require.Equal(t, 1, b.count())
		}
	})
}

// flushAll is flush for another goroutine than the test's; it spins, because the
// reader does the waiting.
func (c *client) flushAll() {
	for {
		if pending, err := c.Flush(); !pending || err != nil {
			return
		}
	}
}

func TestPeerThatDoesNotRead(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		const size = 100_000
		read, sum := make(chan int), make(chan string, 1)
		c := w.dial(t, func(p *peer) {
			h := sha256.New()
			if _, err := io.CopyN(h, p.r, int64(<-read)); err != nil {
				return
			}
			sum <- string(h.Sum(nil))
			p.command() // until the client is gone
		})
		h := sha256.New()
		var buffers []*counted
		total, blocked := 0, 0
		rng := rand.New(rand.NewPCG(3, 4))
		// Until the peer has been in the way for 2 MB: everything after that stays.
		for pending := false; !pending || blocked < 20; {
			b := newCounted(strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(size)))
			c.Append(&b.Buffer, 0, len(b.B))
			h.Write(b.B)
			total += len(b.B)
			b.Release()
			buffers = append(buffers, b)
			var err error
			pending, err = c.Flush()
			require.NoError(t, err)
			if pending {
				blocked++
			}
			require.Less(t, total, 256<<20, "nothing ever blocks")
		}
		require.True(t, c.Pending())
		require.Zero(t, buffers[len(buffers)-1].count())
		read <- total
		c.flush()
		require.Equal(t, string(h.Sum(nil)), <-sum)
		for _, b := range buffers {
			require.Equal(t, 1, b.count())
		}
	})
}

func TestUnsentBuffersAreReleasedByClose(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		gone := make(chan struct{})
		c := w.dial(t, func(*peer) { <-gone })
		defer close(gone)
		var buffers []*counted
		for pending := false; !pending; {
			b := newCounted(strings.Repeat("x", 1<<20))
			c.Append(&b.Buffer, 0, len(b.B)/2)
			c.Append(&b.Buffer, len(b.B)/2, len(b.B))
			b.Release()
			buffers = append(buffers, b)
			var err error
			pending, err = c.Flush()
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		for _, b := range buffers {
			require.Equal(t, 1, b.count())
		}
		<-c.Done()

		late := newCounted("late")
		c.Append(&late.Buffer, 0, 4)
		late.Release()
		require.Equal(t, 1, late.count(), "retained after Close")
		require.False(t, c.Pending())
		require.Equal(t, -1, c.FD())
		c.Shutdown()
		_, err := c.Flush()
		require.ErrorIs(t, err, net.ErrClosed)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, Error{"write", c.Addr(), true, net.ErrClosed}, *e)
		_, err = c.Fill()
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestCloseWhileOthersFlush(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, func(p *peer) { _, _ = io.Copy(io.Discard, p.r) })
		var buffers [4]*counted
		var wg sync.WaitGroup
		started := make(chan struct{}, len(buffers))
		for i := range buffers {
			buffers[i] = newCounted(strings.Repeat("x", 1000))
			wg.Go(func() {
				for n := 0; ; n++ {
					c.Append(&buffers[i].Buffer, n%10, 1000)
					_, err := c.Flush()
					if n == 10 {
						started <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, net.ErrClosed) {
							panic(err)
						}
						return
					}
				}
			})
		}
		for range buffers {
			<-started
		}
		require.NoError(t, c.Close())
		wg.Wait()
		for _, b := range buffers {
			require.Zero(t, b.count())
			b.Release()
			require.Equal(t, 1, b.count())
		}
	})
}

func TestShutdownEndsTheReader(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, func(p *peer) { _, _ = io.Copy(io.Discard, p.r) })
		fd := c.FD()
		go func() {
			c.Shutdown()
			c.Shutdown()
		}()
		_, err := c.nextOrError()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, fd, c.FD(), "only Close closes")
		b := newCounted("x")
		c.Append(&b.Buffer, 0, 1)
		b.Release()
		_, err = c.Flush()
		require.Error(t, err)
		_, again := c.Flush()
		require.Equal(t, err, again)
		require.Zero(t, b.count())
		require.NoError(t, c.Close())
		require.Equal(t, 1, b.count())
	})
}

func TestPeerCloses(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, func(p *peer) { p.say("+last\r\n") })
		require.Equal(t, "last", string(c.next().Data))
		_, err := c.nextOrError()
		require.ErrorIs(t, err, io.EOF)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "read", e.Op)
		require.False(t, e.Sent)
		require.Equal(t, "read "+c.Addr()+": EOF", err.Error())
	})
}

func TestPushesAreReturnedAndAttributesSkipped(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		c := w.dial(t, func(p *peer) {
			p.say("|1\r\n+ttl\r\n:1\r\n:1\r\n>2\r\n+invalidate\r\n*0\r\n|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n+OK\r\n")
			p.command()
		})
		require.Equal(t, resp.Integer, c.next().Kind)
		require.Equal(t, resp.Push, c.next().Kind)
		require.Equal(t, "OK", string(c.next().Data))
	})
}

func TestWhatComesBehindTheHandshakeIsKept(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		a, o := w.serve(t, func(p *peer) {
			p.handshake(func(args []string) string {
				if args[0] == "SET" {
					return ">1\r\n+before\r\n_\r\n>1\r\n+after\r\n+unasked\r\n+par"
				}
				return redis7(args)
			})
			p.say("tial\r\n")
			p.command()
		})
		c := dial(t, a, o)
		require.Equal(t, FormSETIFEQ, c.Info().Extend)
		push := c.next()
		name, _ := push.Next()
		require.Equal(t, "after", string(name.Data))
		require.Equal(t, "unasked", string(c.next().Data))
		require.Equal(t, "partial", string(c.next().Data))
	})
}

func TestBytesThatAreNotRESP(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		for _, s := range []string{"HTTP/1.1 400 Bad Request\r\n", "$9223372036854775807\r\n", "*1000000\r\n", "$-2\r\n", "+\n"} {
			c := w.dial(t, func(p *peer) {
				p.say(":1\r\n" + s)
				p.command()
			})
			require.Equal(t, resp.Integer, c.next().Kind)
			_, err := c.nextOrError()
			require.ErrorIs(t, err, resp.ErrInvalid)
			_, _, again := c.Next()
			require.Equal(t, err, again)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "decode", e.Op)
			require.NoError(t, c.Close())
		}
	})
}

func TestLargestReplyAndManySmallOnes(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		large := strings.Repeat("x", resp.MaxSize-len("$65525\r\n\r\n"))
		c := w.dial(t, func(p *peer) {
			for range 2 {
				p.say(strings.Repeat(":7\r\n", 5000) + bulk(large) + strings.Repeat(":8\r\n", 5000))
			}
			p.say(bulk(large + "x"))
			p.command()
		})
		for range 2 {
			for range 5000 {
				require.EqualValues(t, 7, c.next().Int)
			}
			require.Equal(t, large, string(c.next().Data))
			require.LessOrEqual(t, len(c.in.buf), maxInput)
			for range 5000 {
				require.EqualValues(t, 8, c.next().Int)
			}
			require.Len(t, c.in.buf, minInput, "a buffer that grew was given back")
		}
		_, err := c.nextOrError()
		require.ErrorIs(t, err, resp.ErrTooLarge)
	})
}

func TestFillBeforeNextWasAskedForEverything(t *testing.T) {
	c := wires[0].dial(t, func(p *peer) {
		p.say(strings.Repeat(":7\r\n", 25_000))
		p.command()
	})
	for full := false; !full; {
		c.await(false)
		n, err := c.Fill()
		require.NoError(t, err)
		full = n == 0
	}
	require.Len(t, c.in.buf, maxInput)
	for range 25_000 {
		require.EqualValues(t, 7, c.next().Int)
	}
}

func TestBufferReleasedTooOftenPanics(t *testing.T) {
	b := &Buffer{}
	b.Retain()
	b.Release()
	require.Panics(t, b.Release)
}
