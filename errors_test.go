package redlock_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

func TestAnErrorSaysWhichMasterWhichStepHowManyVotesAndHowLong(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		require.NoError(t, c.masters[4].Refuse(true))
		c.masters[4].Reset()
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		c.masters[2].SetOOM(true)
		c.cut(3)
		c.latencies(2*time.Millisecond, 4*time.Millisecond, 6*time.Millisecond)
		c.masters[1].Set(key, other, 0)
		_, err := client.TryAcquire(t.Context(), key, ttl)
		q := requireKind(t, err, redlock.ErrLocked)
		require.Equal(t, 6*time.Millisecond, q.Elapsed)
		require.Equal(t, `redlock: locked by another: acquire "invoice:42": `+
			`1 of 5 masters granted, 1 refused, 2 failed, quorum 3, after 6ms; `+
			c.masters[2].Addr()+`: OOM command not allowed when used memory > 'maxmemory'.; `+
			c.masters[4].Addr()+`: dial: connection refused`, err.Error())

		var m *redlock.MasterError
		require.ErrorAs(t, err, &m)
		require.Equal(t, c.masters[2].Addr(), m.Addr)
		require.Equal(t, 5, q.Masters)
		require.Equal(t, 3, q.Quorum)
		require.Equal(t, key, q.Resource)
		require.Equal(t, "acquire", q.Op)
	})
}

func TestOurOwnTimeoutIsNotTheCallers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.cut(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, tc := range []struct {
			op   string
			call func() error
		}{
			{"acquire", func() error { _, err := client.TryAcquire(ctx, "another", ttl); return err }},
			{"extend", func() error { return lock.Extend(ctx, ttl) }},
			{"release", lock.Release},
		} {
			err := tc.call()
			q := requireKind(t, err, redlock.ErrNoQuorum)
			require.Equal(t, tc.op, q.Op)
			require.Equal(t, roundTimeout, q.Elapsed, tc.op)
			require.NotErrorIs(t, err, context.DeadlineExceeded, tc.op)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, tc.op)
			require.Len(t, q.Failed, 3)
			for i, f := range q.Failed {
				require.Equal(t, c.masters[i].Addr(), f.Addr)
				require.ErrorContains(t, f, "no answer in time")
			}
		}
		// The same of a connection that was given up, and of a dial that took too long.
		time.Sleep(time.Minute)
		synctest.Wait()
		_, err := client.TryAcquire(ctx, "another", ttl)
		requireKind(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, ": dial: not done within 2s")
		c.heal()
	})
}

// A custom Dial may return anything.
func TestErrorsOfACustomDialAreOneLineAndNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, redlock.Config{
			Masters: []string{"a:1"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.Join(errors.New("this way"), errors.New("and\r\nthat way"))
			},
		})
		synctest.Wait()
		_, err := client.TryAcquire(t.Context(), key, ttl)
		requireKind(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "a:1: dial: this way; and; that way")
		require.NotContains(t, err.Error(), "\r")

		client = newClient(t, redlock.Config{
			Masters: []string{"a:1"},
			Dial:    func(context.Context, string, string) (net.Conn, error) { return nil, context.DeadlineExceeded },
		})
		synctest.Wait()
		_, err = client.TryAcquire(t.Context(), key, ttl)
		requireKind(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSecretsAreNotInErrors(t *testing.T) {
	const secret = "s3cret"
	t.Run("passwords", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			network := fakeredis.NewNetwork()
			echo := fakeredis.Start(t, fakeredis.Config{Network: network})
			// A proxy that repeats what it does not like.
			echo.Hook("hello", func(cmd fakeredis.Command) fakeredis.Action {
				return fakeredis.Action{Error: "ERR cannot do '" + cmd.String() + "'"}
			})
			wrong := fakeredis.Start(t, fakeredis.Config{Network: network, Password: "another"})
			old := fakeredis.Start(t, fakeredis.Config{Network: network, Password: "another", Flavor: fakeredis.Redis5})
			client := newClient(t, redlock.Config{
				Masters:  []string{echo.Addr(), "redis://alice:" + secret + "@" + wrong.Addr(), "redis://:" + secret + "@" + old.Addr()},
				Password: secret, Dial: network.Dial,
			})
			synctest.Wait()
			_, err := client.TryAcquire(t.Context(), key, ttl)
			q := requireKind(t, err, redlock.ErrNoQuorum)
			require.Len(t, q.Failed, 3)
			require.ErrorContains(t, err, wrong.Addr()+": hello: WRONGPASS")
			require.ErrorContains(t, err, old.Addr()+": auth: ERR invalid password")
			for e := range everyError(err) {
				require.NotContains(t, e.Error(), secret)
			}
		})
	})
	t.Run("values", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			lock := c.acquire(t, client, ttl)
			var values []string
			c.hookAll("", 0, func(cmd fakeredis.Command) fakeredis.Action {
				var b strings.Builder
				for _, a := range cmd.Args[1:] {
					values = append(values, string(a))
					b.WriteString("'" + string(a) + "' ")
				}
				return fakeredis.Action{Error: "ERR unknown command '" + string(cmd.Args[0]) + "', with args beginning with: " + b.String()}
			})
			for m := 1; m < 3; m++ { // one hook at a time
				c.masters[m].Hook("", fakeredis.Times(-1, fakeredis.Action{Error: "ERR no"}))
			}
			_, err := client.TryAcquire(t.Context(), "another", ttl)
			for _, err := range []error{err, lock.Extend(t.Context(), ttl), lock.Release()} {
				q := requireKind(t, err, redlock.ErrNoQuorum)
				require.NotEmpty(t, q.Failed)
				synctest.Wait()
				for e := range everyError(err) {
					for _, v := range values {
						if len(v) == len(lock.Value()) {
							require.NotContains(t, e.Error(), v)
						}
					}
				}
			}
			require.Contains(t, values, lock.Value())
		})
	})
}

// everyError yields err and all that it wraps.
func everyError(err error) func(func(error) bool) {
	var walk func(error, func(error) bool) bool
	walk = func(err error, yield func(error) bool) bool {
		if err == nil {
			return true
		}
		if !yield(err) {
			return false
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			return walk(e.Unwrap(), yield)
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if !walk(err, yield) {
					return false
				}
			}
		}
		return true
	}
	return func(yield func(error) bool) { walk(err, yield) }
}

func TestAnErrorShowsAResourceOnOneShortLine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		client := c.client(t)
		for _, resource := range []string{
			"with spaces", "two\r\nlines", "\x00\x01\xff", "größe", "\u2028", strings.Repeat("x", redlock.MaxResource),
			strings.Repeat("\xff", redlock.MaxResource), strings.Repeat("ü", 100), "a\x1b[31mred",
		} {
			c.masters[0].Set(resource, other, 0)
			_, err := client.TryAcquire(t.Context(), resource, ttl)
			q := requireKind(t, err, redlock.ErrLocked)
			require.Equal(t, resource, q.Resource, "whole")
			text := err.Error()
			require.Less(t, len(text), 500)
			require.NotContains(t, text, "\u2028")
			for _, r := range text {
				require.True(t, r >= ' ' && r != 0x7f, "%q", text)
			}
			if len(resource) < 60 {
				require.Equal(t, resource == "with spaces" || resource == "größe", strings.Contains(text, `"`+resource+`"`))
			}
		}
	})
}
