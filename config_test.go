package redlock_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

// Every mistake in a Config is refused by New, before a connection is tried or
// a goroutine started, with an error that names the field.
func TestNewRefusesABadConfig(t *testing.T) {
	inf := math.Inf(1)
	masters := func(addrs ...string) func(*redlock.Config) {
		return func(c *redlock.Config) { c.Masters = addrs }
	}
	var many []string
	for i := range 65 {
		many = append(many, "10.0.0.1:"+strconv.Itoa(1+i))
	}
	for _, tc := range []struct {
		name  string
		spoil func(*redlock.Config)
		want  []string // in the error
	}{
		{"no masters", masters(), []string{"Masters", "empty"}},
		{"too many masters", masters(many...), []string{"Masters", "65", "64"}},
		{"an empty address", masters("a:1", ""), []string{"Masters[1]", "empty"}},
		{"no port", masters("a:1", "b:2", "somewhere"), []string{"Masters[2]", "somewhere", "port"}},
		{"no host", masters(":6379"), []string{"Masters[0]", "host"}},
		{"port 0", masters("a:0"), []string{"Masters[0]", "port"}},
		{"port too large", masters("a:65536"), []string{"Masters[0]", "port"}},
		{"port not a number", masters("a:redis"), []string{"Masters[0]", "port"}},
		{"spaces", masters("a b:6379"), []string{"Masters[0]", "malformed"}},
		{"a line break", masters("a:6379\n"), []string{"Masters[0]"}},
		{"a bare IPv6 address", masters("::1:6379"), []string{"Masters[0]", "malformed"}},
		{"brackets around a name", masters("[name]:6379"), []string{"Masters[0]", "malformed"}},
		{"unknown scheme", masters("http://a:6379"), []string{"Masters[0]", "scheme", `"http"`}},
		{"sentinel's scheme", masters("redis-sentinel://a:6379"), []string{"Masters[0]", "scheme"}},
		{"unix without a path", masters("unix://"), []string{"Masters[0]", "unix:///path"}},
		{"unix with a relative path", masters("unix://run/redis.sock"), []string{"Masters[0]", "unix:///path"}},
		{"a database that is no number", masters("redis://a:6379/first"), []string{"Masters[0]", "database"}},
		{"a negative database in the address", masters("redis://a:6379/-1"), []string{"Masters[0]", "database"}},
		{"parameters", masters("redis://a:6379?x=1"), []string{"Masters[0]", "parameters"}},
		{"credentials without a scheme", masters("user:secret@a:6379"), []string{"Masters[0]", "credentials"}},
		{"malformed credentials", masters("redis://u:secret%zz@a:6379"), []string{"Masters[0]", "credentials"}},
		{"the same address twice", masters("a:1", "b:1", "a:1"), []string{"Masters[2]", "a:1", "Masters[0]"}},
		{"the same in other letters", masters("Host:6379", "host:6379"), []string{"Masters[1]", "Masters[0]"}},
		{"the same as a URL", masters("a:6379", "redis://u:secret@a/3"), []string{"Masters[1]", "Masters[0]"}},
		{"the same with TLS", masters("a:6379", "rediss://a:6379"), []string{"Masters[1]", "Masters[0]"}},
		{"the same in another spelling", masters("[::1]:6379", "[0:0:0:0:0:0:0:1]:6379"), []string{"Masters[1]", "Masters[0]"}},
		{"the same socket", masters("unix:///a", "unix:///a"), []string{"Masters[1]", "Masters[0]"}},
		{"RoundTimeout", func(c *redlock.Config) { c.RoundTimeout = -1 }, []string{"RoundTimeout", "negative"}},
		{"DialTimeout", func(c *redlock.Config) { c.DialTimeout = -time.Second }, []string{"DialTimeout", "negative", "-1s"}},
		{"MinValidity", func(c *redlock.Config) { c.MinValidity = -1 }, []string{"MinValidity", "negative"}},
		{"MinValidity that no ttl has", func(c *redlock.Config) { c.MinValidity = math.MaxInt64 }, []string{"MinValidity"}},
		{"DriftFactor 1", func(c *redlock.Config) { c.DriftFactor = 1 }, []string{"DriftFactor", "below 1"}},
		{"DriftFactor 10", func(c *redlock.Config) { c.DriftFactor = 10 }, []string{"DriftFactor", "10"}},
		{"DriftFactor NaN", func(c *redlock.Config) { c.DriftFactor = math.NaN() }, []string{"DriftFactor", "NaN"}},
		{"DriftFactor Inf", func(c *redlock.Config) { c.DriftFactor = inf }, []string{"DriftFactor", "Inf"}},
		{"DriftFactor that eats every ttl", func(c *redlock.Config) { c.DriftFactor = math.Nextafter(1, 0) }, []string{"DriftFactor"}},
		{"DB", func(c *redlock.Config) { c.DB = -1 }, []string{"DB", "negative"}},
		{"ClientName with a space", func(c *redlock.Config) { c.ClientName = "my client" }, []string{"ClientName", `"my client"`}},
		{"ClientName with a line break", func(c *redlock.Config) { c.ClientName = "a\r\nFLUSHALL" }, []string{"ClientName"}},
		{"ClientName beyond ASCII", func(c *redlock.Config) { c.ClientName = "größe" }, []string{"ClientName"}},
		{"Username alone", func(c *redlock.Config) { c.Username = "u" }, []string{"Username", "Password"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			cfg := redlock.Config{
				Masters: []string{"10.0.0.1:6379"},
				Dial: func(context.Context, string, string) (net.Conn, error) {
					t.Error("a connection was tried")
					return nil, net.ErrClosed
				},
			}
			tc.spoil(&cfg)
			client, err := redlock.New(cfg)
			require.Nil(t, client)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), "redlock: Config."), err.Error())
			for _, part := range tc.want {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "\n")
			for _, s := range sentinels {
				require.NotErrorIs(t, err, s)
			}
			require.LessOrEqual(t, runtime.NumGoroutine(), before)
		})
	}
}

func TestNewTakesEveryGoodConfig(t *testing.T) {
	for name, change := range map[string]func(*redlock.Config){
		"defaults":       func(*redlock.Config) {},
		"off where off":  func(c *redlock.Config) { c.RetryDelay, c.DriftFactor = -1, -1 },
		"minus infinity": func(c *redlock.Config) { c.DriftFactor = math.Inf(-1) },
		"for ever": func(c *redlock.Config) {
			c.RoundTimeout, c.RetryDelay, c.DialTimeout = math.MaxInt64, math.MaxInt64, math.MaxInt64
		},
		"almost 1":     func(c *redlock.Config) { c.DriftFactor = 0.999 },
		"another base": func(c *redlock.Config) { c.ClientName, c.DB = "worker-1", 15 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t, change)
				lock := c.acquire(t, client, time.Minute)
				require.NoError(t, lock.Extend(t.Context(), time.Minute))
				require.NoError(t, lock.Release())
			})
		})
	}
}

// Bad arguments get an error of their own, before anything is sent.
func TestBadArguments(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t, func(cfg *redlock.Config) { cfg.DriftFactor, cfg.MinValidity = 0.5, 10*time.Millisecond })
		lock := c.acquire(t, client, ttl)
		until := lock.Until()
		counts := func() (n int) {
			synctest.Wait()
			for _, m := range c.masters {
				n += len(m.Commands())
			}
			return n
		}
		before := counts()
		long := strings.Repeat("x", redlock.MaxResource+1)
		for _, tc := range []struct {
			name     string
			ctx      context.Context
			resource string
			ttl      time.Duration
			want     []string
		}{
			{"nil context", nil, key, ttl, []string{"context", "nil"}},
			{"empty resource", t.Context(), "", ttl, []string{"resource", "empty"}},
			{"long resource", t.Context(), long, ttl, []string{"resource", "16385", "16384", "MaxResource"}},
			{"ttl 0", t.Context(), key, 0, []string{"ttl", "positive"}},
			{"ttl negative", t.Context(), key, -time.Second, []string{"ttl", "positive", "-1s"}},
			{"ttl most negative", t.Context(), key, math.MinInt64, []string{"ttl", "positive"}},
			{"ttl eaten by the drift", t.Context(), key, 24 * time.Millisecond, []string{"ttl", "24ms", "drift", "25ms"}},
			{"a nanosecond", t.Context(), key, 1, []string{"ttl", "1ns", "drift", "25ms"}},
			{"ttl too long", t.Context(), key, math.MaxInt64, []string{"ttl", "too long"}},
		} {
			calls := map[string]func() error{
				"TryAcquire": func() error { _, err := client.TryAcquire(tc.ctx, tc.resource, tc.ttl); return err },
				"Acquire":    func() error { _, err := client.Acquire(tc.ctx, tc.resource, tc.ttl); return err },
			}
			if tc.resource == key {
				calls["Extend"] = func() error { return lock.Extend(tc.ctx, tc.ttl) }
			}
			if tc.ctx == nil {
				calls["Ready"] = func() error { return client.Ready(tc.ctx) }
			}
			for call, f := range calls {
				err := f()
				what := tc.name + ", " + call
				require.Error(t, err, what)
				require.True(t, strings.HasPrefix(err.Error(), "redlock: the "), err.Error())
				for _, part := range tc.want {
					require.ErrorContains(t, err, part, what)
				}
				require.Less(t, len(err.Error()), 200, "it does not repeat a long resource")
				var q *redlock.QuorumError
				require.NotErrorAs(t, err, &q, what)
			}
		}
		require.Equal(t, before, counts(), "nothing is sent")
		require.Equal(t, until, lock.Until())

		smallest, err := client.TryAcquire(t.Context(), "another", 25*time.Millisecond)
		require.NoError(t, err, "the smallest that the error names works")
		require.NoError(t, smallest.Release())
		longest, err := client.TryAcquire(t.Context(), long[1:], 100*365*24*time.Hour)
		require.NoError(t, err, "so do the longest resource and ttl")
		require.NoError(t, longest.Extend(t.Context(), 100*365*24*time.Hour))
		require.NoError(t, longest.Release())
	})
}

func TestTheSmallestTTLThatTheErrorNamesWorks(t *testing.T) {
	for _, factor := range []float64{-1, 0, 0.1, 0.5, 0.9, 0.99} {
		t.Run(fmt.Sprint("DriftFactor ", factor), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t, func(cfg *redlock.Config) { cfg.DriftFactor = factor })
				_, err := client.TryAcquire(t.Context(), key, 2*time.Millisecond)
				require.Error(t, err)
				words := strings.Fields(err.Error())
				smallest, err := time.ParseDuration(words[len(words)-1])
				require.NoError(t, err)
				_, err = client.TryAcquire(t.Context(), key, smallest-time.Millisecond)
				require.Error(t, err)
				lock := c.acquire(t, client, smallest)
				require.True(t, lock.Until().After(time.Now()))
			})
		})
	}
}

// The database and the login: of the address if it has them, else of the Config.
func TestCredentialsOfAnAddressWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fakeredis.NewNetwork()
		own := fakeredis.Start(t, fakeredis.Config{Network: net, Username: "alice", Password: "p/w"})
		common := fakeredis.Start(t, fakeredis.Config{Network: net, Password: "secret"})
		client := newClient(t, redlock.Config{
			Masters:  []string{"redis://alice:p%2Fw@" + own.Addr() + "/3", common.Addr()},
			Password: "secret", DB: 5, ClientName: "worker-1", Dial: net.Dial,
		})
		lock, err := client.Acquire(t.Context(), key, ttl)
		require.NoError(t, err)
		for db, m := range map[int]*fakeredis.Server{3: own, 5: common} {
			v, ok := m.DB(db).Get(key)
			require.True(t, ok)
			require.Equal(t, lock.Value(), v)
			require.Equal(t, "worker-1", m.Clients()[0].Name)
		}
	})
}
