package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const exhaustiveN = 9

// everyTally calls f for all votes that n masters can have cast.
func everyTally(n int, f func(Tally)) {
	for g := 0; g <= n; g++ {
		for r := 0; g+r <= n; r++ {
			for fl := 0; g+r+fl <= n; fl++ {
				f(Tally{Masters: n, Granted: g, Refused: r, Failed: fl})
			}
		}
	}
}

// completions calls f for every way in which the owed votes of t can come.
func completions(t Tally, f func(Tally)) {
	everyTally(t.Owed(), func(more Tally) {
		if more.Owed() == 0 {
			f(Tally{t.Masters, t.Granted + more.Granted, t.Refused + more.Refused, t.Failed + more.Failed})
		}
	})
}

// next3 is t with one more vote of each kind.
func next3(t Tally) []Tally {
	if t.Owed() == 0 {
		return nil
	}
	g, r, f := t, t, t
	g.count(Granted)
	r.count(Refused)
	f.count(Failed)
	return []Tally{g, r, f}
}

func TestTwoQuorumsAlwaysShareAMaster(t *testing.T) {
	for n := 1; n <= MaxMasters; n++ {
		require.Greater(t, 2*Quorum(n), n)
		require.LessOrEqual(t, 2*(Quorum(n)-1), n, "a quorum of %d is larger than it must be", n)
	}
}

func TestEveryTallyOfAnAcquisition(t *testing.T) {
	for n := 1; n <= exhaustiveN; n++ {
		q := n/2 + 1
		everyTally(n, func(v Tally) {
			d := v.Acquisition()
			winnable := false
			completions(v, func(end Tally) { winnable = winnable || end.Granted >= q })

			require.Equal(t, v.Granted >= q, d == Won, "%+v: won exactly with a quorum", v)
			require.Equal(t, winnable && v.Granted < q, d == Undecided, "%+v: open exactly while it can still be won", v)
			if d == NoQuorum || d == Lost {
				require.Equal(t, v.Failed > n-q, d == NoQuorum, "%+v: no quorum exactly if too many failed", v)
			}
			for _, later := range next3(v) {
				switch d {
				case Undecided:
				case Lost: // later failures may say why; they never make it won
					require.Contains(t, []Decision{Lost, NoQuorum}, later.Acquisition(), "%+v", v)
				default:
					require.Equal(t, d, later.Acquisition(), "%+v: a decision stands", v)
				}
			}
		})
	}
}

func TestEveryTallyOfAConfirmation(t *testing.T) {
	for n := 1; n <= exhaustiveN; n++ {
		q := n/2 + 1
		everyTally(n, func(v Tally) {
			d := v.Confirmation()
			open := false
			completions(v, func(end Tally) { open = open || end.Granted >= q || end.Refused > n-q })

			require.Equal(t, v.Granted >= q, d == Won, "%+v: won exactly with a quorum", v)
			require.Equal(t, v.Refused > n-q, d == Lost, "%+v: lost exactly when no quorum can still have it", v)
			if d == Undecided || d == NoQuorum {
				require.Equal(t, open, d == Undecided, "%+v: open exactly while votes can still tell", v)
			}
			for _, later := range next3(v) {
				if d != Undecided {
					require.Equal(t, d, later.Confirmation(), "%+v: a decision stands", v)
				}
			}
		})
	}
}

func TestNothingIsUndecidedWhenNothingIsOwed(t *testing.T) {
	for n := 1; n <= exhaustiveN; n++ {
		everyTally(n, func(v Tally) {
			end := v.Overdue()
			require.Zero(t, end.Owed())
			require.Equal(t, v.Failed+v.Owed(), end.Failed)
			require.Equal(t, v.Granted, end.Granted)
			require.Equal(t, v.Refused, end.Refused)
			require.NotEqual(t, Undecided, end.Acquisition(), "%+v", v)
			require.NotEqual(t, Undecided, end.Confirmation(), "%+v", v)
			if v.Acquisition() == Undecided {
				require.NotEqual(t, Won, end.Acquisition(), "%+v: silence grants nothing", v)
			}
			if d := v.Confirmation(); d == Undecided {
				require.Equal(t, NoQuorum, end.Confirmation(), "%+v: silence says nothing", v)
			}
		})
	}
}

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name                        string
		n, granted, refused, failed int
		acquisition, confirmation   Decision
	}{
		{"nothing has come", 5, 0, 0, 0, Undecided, Undecided},
		{"the quorum", 5, 3, 0, 0, Won, Won},
		{"one below the quorum", 5, 2, 0, 0, Undecided, Undecided},
		{"quorum in spite of the others", 5, 3, 1, 1, Won, Won},
		{"another has it", 5, 0, 3, 0, Lost, Lost},
		{"another has it, one master down", 5, 0, 3, 1, Lost, Lost},
		{"two down and split", 5, 2, 1, 2, Lost, NoQuorum},
		{"split vote", 5, 2, 2, 1, Lost, NoQuorum},
		{"lost, but it may be gone as well", 5, 0, 2, 1, Lost, Undecided},
		{"too many down", 5, 2, 0, 3, NoQuorum, NoQuorum},
		{"too many down, the rest refuses", 5, 0, 2, 3, NoQuorum, NoQuorum},
		{"everything down", 5, 0, 0, 5, NoQuorum, NoQuorum},
		{"an even split", 4, 2, 2, 0, Lost, Lost},
		{"an even number needs more than half", 4, 2, 0, 2, NoQuorum, NoQuorum},
		{"an even number: two say that it is gone", 4, 0, 2, 0, Lost, Lost},
		{"one master grants", 1, 1, 0, 0, Won, Won},
		{"one master refuses", 1, 0, 1, 0, Lost, Lost},
		{"one master is down", 1, 0, 0, 1, NoQuorum, NoQuorum},
		{"two masters need both", 2, 1, 0, 1, NoQuorum, NoQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Tally{Masters: c.n, Granted: c.granted, Refused: c.refused, Failed: c.failed}
			require.Equal(t, c.acquisition, v.Acquisition(), "acquisition")
			require.Equal(t, c.confirmation, v.Confirmation(), "confirmation")
		})
	}
}

func TestAVoteThatNobodyWroteIsNeverAGrant(t *testing.T) {
	var v Vote
	tally := Tally{Masters: 1}
	tally.count(v)
	require.Equal(t, Tally{Masters: 1}, tally)
	require.Equal(t, "owed", v.String())
	var d Decision
	require.Equal(t, "undecided", d.String())

	tally.count(Broken)
	require.Equal(t, 1, tally.Failed, "a reply that the command cannot have is no answer")
	require.Equal(t, []string{"granted", "refused", "failed", "broken"},
		[]string{Granted.String(), Refused.String(), Failed.String(), Broken.String()})
	require.Equal(t, []string{"won", "lost", "no quorum"}, []string{Won.String(), Lost.String(), NoQuorum.String()})
}

func TestBackOffDoublesUpToTheSlowest(t *testing.T) {
	for _, slowest := range []time.Duration{slowestDial, slowestRelease, firstBackOff / 2} {
		longest := min(firstBackOff, slowest)
		for n := 1; n <= 100; n++ {
			require.Equal(t, longest, backOff(n, slowest, 0), "try %d", n)
			for range 10 {
				d := backOff(n, slowest, rand.Float64())
				require.LessOrEqual(t, d, longest, "try %d", n)
				require.GreaterOrEqual(t, d, longest/2, "try %d", n)
			}
			longest = min(2*longest, slowest)
		}
		require.Equal(t, slowest, longest)
	}
	require.Equal(t, firstBackOff, backOff(0, time.Second, 0), "the first try has a number from 1, but 0 does no harm")
	require.NotEqual(t, backOff(3, time.Second, 0.2), backOff(3, time.Second, 0.7), "clients do not come together")
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var q queue[*int]
		var model []*int
		for step := range 3000 {
			// Phases of growth and of shrinking, so that the ring wraps and grows.
			grow := 3 + 4*((step/500)%2)
			switch k := rnd.IntN(10); {
			case k < grow:
				v := new(int)
				q.push(v)
				model = append(model, v)
			case k < 9 && len(model) > 0:
				require.Same(t, model[0], q.pop())
				model = model[1:]
			default:
				q.trim()
			}
			require.Equal(t, len(model), q.len)
			if len(model) > 0 {
				i := rnd.IntN(len(model))
				require.Same(t, model[i], q.at(i))
			}
		}
		for _, v := range model {
			require.Same(t, v, q.pop())
		}
		for _, v := range q.ring {
			require.Nil(t, v, "the ring keeps nothing alive")
		}
	}
}

func TestQueueLetsGoOfALargeRingOnlyWhenEmpty(t *testing.T) {
	var q queue[int]
	for i := range 64*minRing + 1 {
		q.push(i)
	}
	q.trim()
	require.Equal(t, 64*minRing+1, q.len)
	for i := range 64*minRing + 1 {
		require.Equal(t, i, q.pop())
	}
	q.trim()
	require.Empty(t, q.ring)
	q.push(7)
	require.Equal(t, 7, q.pop())
	q.trim()
	require.Len(t, q.ring, minRing, "a small ring stays: the next round needs it")
}

func TestRoundListKeepsTheRoundsThatWait(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		rounds := make([]Round, 8)
		in := make(map[*Round]bool)
		var l roundList
		for range 1000 {
			r := &rounds[rnd.IntN(len(rounds))]
			if in[r] || rnd.IntN(4) == 0 {
				l.remove(r) // of one that is not in it as well
				delete(in, r)
			} else {
				l.add(r)
				in[r] = true
			}
			found := make(map[*Round]bool)
			var before *Round
			for x := l.first; x != nil; x = x.next {
				require.Same(t, before, x.prev)
				require.False(t, found[x])
				found[x], before = true, x
			}
			require.Equal(t, in, found)
			require.Equal(t, len(in), l.len)
			for i := range rounds {
				require.Equal(t, in[&rounds[i]], l.has(&rounds[i]), fmt.Sprint(i))
			}
		}
	}
}
