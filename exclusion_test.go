package redlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// Mutual exclusion, on real masters, among the goroutines of several processes.
// The witness is one more Redis that has nothing to do with the lock: whoever
// holds the lock takes a mark there that can be taken once, and adds one to a
// counter in two steps, which loses an addition if two do it at a time.

const contenderJob = "REDLOCK_TEST_CONTENDER"

type job struct {
	Masters                  []string
	Witness                  string
	Goroutines, Acquisitions int
	Disturbed                bool // a Release may not reach a quorum
}

const (
	mark    = "mark"
	counter = "counter"
)

func TestMutualExclusion(t *testing.T) {
	const processes, goroutines, acquisitions = 3, 4, 40
	const total = processes * goroutines * acquisitions
	for _, tc := range []struct {
		name string
		// disturb disturbs once; it is called again and again while the contenders
		// are at work, and gets the number of the call and a function that waits
		// until they have got a bit further.
		disturb func(t *testing.T, masters []*redisproc.Process, call int, further func())
	}{
		{"undisturbed", nil},
		{"while two of five masters die", func(t *testing.T, masters []*redisproc.Process, call int, _ func()) {
			if call%4 == 1 && call < 8 {
				require.NoError(t, masters[3+call/4].Kill())
			}
		}},
		{"while connections break", func(t *testing.T, masters []*redisproc.Process, call int, _ func()) {
			_, err := masters[call%5].Do("CLIENT", "KILL", "TYPE", "normal")
			require.NoError(t, err)
		}},
		{"while masters freeze", func(t *testing.T, masters []*redisproc.Process, call int, further func()) {
			require.NoError(t, masters[call%5].Stop())
			further()
			require.NoError(t, masters[call%5].Continue())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := redisproc.Start(t, 6)
			masters, witness := all[:5], all[5]
			count := func() int {
				text, err := witness.Do("GET", counter)
				require.NoError(t, err)
				n, _ := strconv.Atoi(text)
				return n
			}
			text, err := json.Marshal(job{
				Masters: redisproc.Addrs(masters), Witness: witness.Addr(),
				Goroutines: goroutines, Acquisitions: acquisitions, Disturbed: tc.disturb != nil,
			})
			require.NoError(t, err)

			var running sync.WaitGroup
			done := make(chan struct{})
			results := make([]error, processes)
			for i := range processes {
				running.Go(func() {
					cmd := exec.CommandContext(t.Context(), os.Args[0])
					cmd.Env = append(os.Environ(), contenderJob+"="+string(text))
					if out, err := cmd.CombinedOutput(); err != nil {
						results[i] = fmt.Errorf("%w: %s", err, out)
					}
				})
			}
			go func() {
				running.Wait()
				close(done)
			}()
			further := func() {
				for goal := count() + total/20; count() < goal && !ended(done, time.Millisecond); {
				}
			}
			for call := 0; tc.disturb != nil && !ended(done, 0); call++ {
				further()
				tc.disturb(t, masters, call, further)
			}
			<-done
			require.NoError(t, errors.Join(results...))
			require.Equal(t, total, count(), "every holder was alone with the counter")
		})
	}
}

// ended waits for the end of what is done, for d at most.
func ended(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// contend is the other process.
func contend(text string) int {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (j job) run() error {
	client, err := redlock.New(redlock.Config{Masters: j.Masters, RoundTimeout: time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	results := make([]error, j.Goroutines)
	var wg sync.WaitGroup
	for i := range j.Goroutines {
		wg.Go(func() {
			defer func() {
				if results[i] != nil {
					cancel() // the others would wait for what is not released
				}
			}()
			w, err := dialForeign(j.Witness)
			if err != nil {
				results[i] = err
				return
			}
			defer w.close()
			for range j.Acquisitions {
				if err := j.once(ctx, client, w); err != nil {
					results[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(results...)
}

func (j job) once(ctx context.Context, client *redlock.Client, w *foreign) error {
	lock, err := client.Acquire(ctx, key, time.Minute)
	if err != nil {
		return err
	}
	id := fmt.Sprint(os.Getpid(), " ", lock.Value())
	taken, err := w.do("SET", mark, id, "NX")
	if err != nil {
		return err
	}
	if taken != "OK" {
		holder, _ := w.do("GET", mark)
		return fmt.Errorf("two holders at once: %s and %s", id, holder)
	}
	text, err := w.do("GET", counter)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(text)
	if _, err = w.do("SET", counter, strconv.Itoa(n+1)); err == nil {
		_, err = w.do("DEL", mark)
	}
	if err != nil {
		return err
	}
	if !time.Now().Before(lock.Until()) {
		return errors.New("the machine stood still for longer than the ttl: this run proves nothing")
	}
	if err := lock.Release(); err != nil && !j.Disturbed {
		return err
	}
	return nil
}
