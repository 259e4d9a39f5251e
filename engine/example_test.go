package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/engine"
	"github.com/goredlock/redlock/fakeredis"
	"github.com/goredlock/redlock/resp"
)

// atLeast is a command of a user's own, as a script: it raises a number and
// never lowers it. A master that has forgotten the script gets its source.
var (
	atLeastScript = engine.NewScript(`
		if tonumber(redis.call("get", KEYS[1]) or 0) >= tonumber(ARGV[1]) then return 0 end
		redis.call("set", KEYS[1], ARGV[1])
		return 1`)
	atLeast = engine.Op{
		Name: "at least",
		Append: func(dst []byte, form conn.Form, r *engine.Round) []byte {
			dst = atLeastScript.AppendHead(dst, form, 2)
			dst = resp.AppendBulk(dst, r.Key)
			return resp.AppendBulk(dst, r.Value)
		},
		Vote: func(_ conn.Form, v resp.Value) engine.Vote {
			switch {
			case v.Kind != resp.Integer:
				return engine.Broken
			case v.Int == 1:
				return engine.Granted
			default:
				return engine.Refused
			}
		},
		Decide: engine.Tally.Acquisition,
		Script: atLeastScript,
	}
)

// Any command or script can be a round.
func Example() {
	cfg := engine.Config{RoundTimeout: time.Second, Silence: time.Second, Scripts: []*engine.Script{atLeastScript}}
	for range 3 {
		master, err := fakeredis.Listen("127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer master.Close()
		cfg.Masters = append(cfg.Masters, engine.Address{Network: "tcp", Addr: master.Addr()})
	}
	e, err := engine.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	ctx := context.Background()
	if err := e.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}

	for _, number := range []string{"7", "5", "8"} {
		r := e.NewRound(&atLeast)
		r.Key = "fence"
		r.SetValue([]byte(number))
		e.Queue(r)
		fmt.Println(number, e.Wait(ctx, r).Decision)
	}
	// Output:
	// 7 won
	// 5 lost
	// 8 won
}

func TestAScriptOfAUserIsSentAgainAsSource(t *testing.T) {
	cfg := engine.Config{RoundTimeout: time.Minute, Silence: time.Minute}
	var masters []*fakeredis.Server
	for range 3 {
		s := fakeredis.Start(t)
		masters = append(masters, s)
		cfg.Masters = append(cfg.Masters, engine.Address{Network: "tcp", Addr: s.Addr()})
	}
	e, err := engine.New(cfg) // which does not load the script
	require.NoError(t, err)
	defer e.Close()
	e.FirstContact(context.Background(), time.Now().Add(time.Minute))

	r := e.NewRound(&atLeast)
	r.Key = "fence"
	r.SetValue([]byte("7"))
	e.Queue(r)
	o := e.Wait(context.Background(), r)
	require.Equal(t, engine.Won, o.Decision)
	asSource := 0
	for _, s := range masters {
		if s.Count("eval") > 0 {
			asSource++
		}
	}
	require.GreaterOrEqual(t, asSource, o.Tally.Quorum())
}
