package engine

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
	"github.com/goredlock/redlock/resp"
)

// offline returns an engine whose masters are never up. A test can play them.
func offline(t testing.TB, n int) *Engine {
	cfg := Config{RoundTimeout: forLong, Silence: forLong, Masters: make([]conn.Address, n)}
	cfg.Dial.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// underWay makes a round that waits for all masters, as Queue and Wait would.
func (e *Engine) underWay(op *Op, caller callerState) *Round {
	r := e.newRound()
	r.Op, r.caller, r.tally = op, caller, Tally{Masters: len(e.masters)}
	r.debts = len(e.masters)
	e.await(r)
	return r
}

// Every sequence of votes, with the deadline or Close between any two of them:
// the first that decides is the decision, whatever comes later, and a caller
// that waits is woken once.
func TestARoundIsDecidedExactlyOnce(t *testing.T) {
	const n = 3
	const deadline, closing, steps = 3, 4, 5
	e := offline(t, n)
	events := []Vote{Granted, Refused, Failed}
	for _, op := range []*Op{&Acquire, &Release} {
		for _, caller := range []callerState{around, parked} {
			for code := range steps * steps * steps * steps {
				var r *Round
				tally := Tally{Masters: n}
				e.locked(func() {
					r = e.underWay(op, caller)
					want, voted, decided := Undecided, 0, false
					for rest := code; rest > 0 || voted < n; rest /= steps {
						switch what := rest % steps; {
						case what == deadline && !decided && voted < n:
							want, decided = op.Decide(tally.Overdue()), true
							e.expired(r)
						case what == closing && !decided:
							decided = true
							e.settleAll()
						case what < deadline && voted < n:
							tally.count(events[what])
							if d := op.Decide(tally); !decided && d != Undecided {
								want, decided = d, true
							}
							e.vote(r, voted, events[what], nil)
							voted++
						}
						require.Equal(t, decided, r.settled())
						require.Equal(t, want, r.decision)
						require.Equal(t, !decided, e.waiting.has(r))
					}
					require.True(t, decided, "all have voted")
				})
				if caller == parked {
					require.Len(t, r.wake, 1, "one token")
					<-r.wake
				}
				require.Empty(t, r.wake)
				e.locked(func() {
					require.Equal(t, tally, r.tally, "stragglers are counted, and do not decide")
					require.Zero(t, e.waiting.len)
					r.debts = 0
					e.leave(r)
				})
			}
		}
	}
}

func TestARoundIsNotUsedAgainWhileItIsOwedOrHeld(t *testing.T) {
	e := offline(t, 3)
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.underWay(&Acquire, around)
	e.settleAll()
	for _, c := range []struct {
		debts  int
		caller callerState
		pooled bool
	}{{1, absent, false}, {0, around, false}, {0, parked, false}, {0, woken, false}, {3, around, false}, {0, absent, true}} {
		r.debts, r.caller = c.debts, c.caller
		r.errs = []error{errors.New("x"), nil, nil}
		r.votes[1] = Granted
		e.recycle(r)
		require.Equal(t, c.pooled, e.free == r, "%+v", c)
	}
	again := e.newRound()
	require.Same(t, r, again)
	wake, votes := again.wake, again.votes
	require.Equal(t, &Round{wake: wake, votes: []Vote{0, 0, 0}, errs: make([]error, 3), enc: []byte{}, Value: []byte{}}, &Round{
		wake: wake, votes: votes, enc: append([]byte{}, again.enc...), Value: append([]byte{}, again.Value...),
		Op: again.Op, errs: again.errs, tally: again.tally, decision: again.decision, overdue: again.overdue,
		closed: again.closed, sent: again.sent, encoded: again.encoded, caller: again.caller, May: again.May,
	}, "nothing of the former round is left")

	long := e.newRound()
	long.enc = make([]byte, 0, maxFreeBytes+1)
	e.recycle(long)
	require.NotSame(t, long, e.free, "the buffer of a very long key is not kept")
}

// A user's functions may take their time, and call the engine.
func TestAnOpIsWrittenAndJudgedWithoutTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 3)
		calls := 0
		op := Release
		op.Append = func(dst []byte, f conn.Form, r *Round) []byte {
			calls++
			require.Empty(t, c.Down()) // which takes the lock
			return appendRelease(dst, f, r)
		}
		op.Vote = func(f conn.Form, v resp.Value) Vote {
			calls++
			require.Empty(t, c.Down())
			return voteCount(f, v)
		}
		for _, s := range c.fakes {
			s.Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Error: "NOSCRIPT No matching script."}))
		}
		require.Equal(t, 3, c.do(context.Background(), unanimous(op), "key", "v", time.Hour).Tally.Refused)
		require.Equal(t, 1+3+3, calls, "once for all, once for each NOSCRIPT, and the votes")
	})
}

func TestNewRefusesAnImpossibleNumberOfMasters(t *testing.T) {
	for _, n := range []int{0, MaxMasters + 1} {
		_, err := New(Config{Masters: make([]conn.Address, n)})
		require.ErrorContains(t, err, "between 1 and 64")
	}
}
