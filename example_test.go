package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

// startMasters starts three masters inside this process, so that the examples
// run anywhere. Yours are real ones, at fixed addresses.
func startMasters() (addrs []string, stop func()) {
	var servers []*fakeredis.Server
	for range 3 {
		s, err := fakeredis.Listen("127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		servers = append(servers, s)
		addrs = append(addrs, s.Addr())
	}
	return addrs, func() {
		for _, s := range servers {
			s.Close()
		}
	}
}

func Example() {
	masters, stop := startMasters() // "10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"
	defer stop()

	client, err := redlock.New(redlock.Config{Masters: masters})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Acquire(context.Background(), "invoice:42", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	fmt.Println(lock.Resource(), "is ours for more than 9 s:", time.Until(lock.Until()) > 9*time.Second)
	// Output: invoice:42 is ours for more than 9 s: true
}

// TryAcquire makes one attempt. The error says whether somebody else has the
// resource, or whether that is not known.
func ExampleClient_TryAcquire() {
	masters, stop := startMasters()
	defer stop()
	client, err := redlock.New(redlock.Config{Masters: masters, RoundTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	lock, err := client.TryAcquire(ctx, "nightly report", time.Minute)
	fmt.Println("first:", err)
	defer lock.Release()

	_, err = client.TryAcquire(ctx, "nightly report", time.Minute)
	switch {
	case errors.Is(err, redlock.ErrLocked):
		fmt.Println("second: another has it, nothing to do")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("second: too many masters are down:", err)
	}
	// Output:
	// first: <nil>
	// second: another has it, nothing to do
}

// Acquire waits until the resource is free, for as long as its context lives.
func ExampleClient_Acquire() {
	masters, stop := startMasters()
	defer stop()
	client, err := redlock.New(redlock.Config{Masters: masters, RoundTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	counter := 0
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			lock, err := client.Acquire(ctx, "counter", 30*time.Second)
			if err != nil {
				log.Fatal(err)
			}
			defer lock.Release()
			counter++ // nobody else is here
		})
	}
	wg.Wait()
	fmt.Println(counter)
	// Output: 10
}

// Work that takes longer than the ttl extends the lock on its way, and stops
// when it cannot.
func ExampleLock_Extend() {
	masters, stop := startMasters()
	defer stop()
	client, err := redlock.New(redlock.Config{Masters: masters, RoundTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	lock, err := client.Acquire(ctx, "migration", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	for step := range 3 {
		if time.Until(lock.Until()) < 20*time.Second {
			if err := lock.Extend(ctx, 30*time.Second); err != nil {
				log.Fatal(err) // the resource must not be touched any more
			}
			fmt.Println("extended before step", step)
		}
		fmt.Println("step", step)
	}
	// Output:
	// extended before step 0
	// step 0
	// step 1
	// step 2
}

// ReleaseAsync is for code that has no use for the answer.
func ExampleLock_ReleaseAsync() {
	masters, stop := startMasters()
	defer stop()
	client, err := redlock.New(redlock.Config{Masters: masters, RoundTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	lock, err := client.Acquire(ctx, "cache:refresh", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	lock.ReleaseAsync()
	fmt.Println("valid:", time.Now().Before(lock.Until()))

	// It is queued before whatever comes next.
	_, err = client.TryAcquire(ctx, "cache:refresh", 10*time.Second)
	fmt.Println("taken again:", err == nil)
	// Output:
	// valid: false
	// taken again: true
}
