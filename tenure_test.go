package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/engine"
)

// Every sequence of five events in the life of a lock, with up to two extensions
// under way: what must hold after each of them.
func TestEveryShortLifeOfALock(t *testing.T) {
	const unit = time.Second
	type pending struct {
		number uint64
		until  time.Time
	}
	type life struct {
		tenure
		now   time.Time
		under []pending
		limit time.Time // the earliest end of a shorter extension that may have been obeyed
	}
	start := time.Now()
	events := map[string]func(*life){}
	for name, ttl := range map[string]time.Duration{"longer": 6 * unit, "shorter": 2 * unit} {
		events["extend "+name] = func(l *life) {
			if len(l.under) == 2 {
				return
			}
			before, until := l.until, l.now.Add(ttl)
			n, err := l.extend(l.now, until, ttl)
			if err != nil {
				return
			}
			require.False(t, l.until.After(until), "it may be obeyed from now on")
			require.False(t, l.until.After(before), "nothing has been granted")
			l.under = append(l.under, pending{n, until})
			l.limit = earlier(l.limit, until)
		}
	}
	for _, d := range []engine.Decision{engine.Won, engine.Lost, engine.NoQuorum} {
		for _, which := range []string{"first", "last"} {
			events[fmt.Sprint(which, " ", d)] = func(l *life) {
				if len(l.under) == 0 {
					return
				}
				i := 0
				if which == "last" {
					i = len(l.under) - 1
				}
				p := l.under[i]
				l.under = append(append([]pending{}, l.under[:i]...), l.under[i+1:]...)
				before, ended := l.until, l.ended
				valid := !ended && left(before, l.now) > 0
				err := l.extended(l.now, p.number, p.until, d)
				switch {
				case ended:
					require.ErrorIs(t, err, ErrNotHeld)
				case d == engine.Lost:
					require.ErrorIs(t, err, ErrNotHeld)
					require.True(t, l.ended)
				case d == engine.NoQuorum:
					require.ErrorIs(t, err, ErrNoQuorum)
					require.False(t, l.ended, "it is what it was")
				case !valid:
					require.ErrorIs(t, err, ErrExpired)
					require.True(t, l.ended)
				default:
					require.NoError(t, err)
				}
				if l.until.After(before) {
					require.True(t, valid && d == engine.Won && p.number == l.newest, "who moves Until up")
					require.True(t, l.until.Equal(p.until))
					l.limit = l.until // a newer command has replaced what was obeyed
				}
			}
		}
	}
	events["time passes"] = func(l *life) { l.now = l.now.Add(3 * unit) }
	events["end"] = func(l *life) {
		ended := l.ended
		require.Equal(t, !ended, l.end(l.now))
	}

	lives := 0
	var walk func(l life, depth int, names []string)
	walk = func(l life, depth int, names []string) {
		lives++
		require.False(t, l.ended && left(l.until, l.now) > 0, "ended, and valid: %v", names)
		require.False(t, l.until.After(l.limit), "a shorter extension may have been obeyed: %v", names)
		if depth == 0 {
			return
		}
		for name, event := range events {
			next := l
			next.under = append([]pending{}, l.under...)
			event(&next)
			require.True(t, next.ended || !l.ended, "the end is for good: %v", names)
			walk(next, depth-1, append(names[:len(names):len(names)], name))
		}
	}
	first := start.Add(5 * unit)
	walk(life{tenure: tenure{until: first, longest: 5 * unit}, now: start, limit: first}, 5, nil)
	t.Log(lives, "lives")
}
