package fakeredis_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/goredlock/redlock/fakeredis"
)

// A program starts a server with Listen; a test would write fakeredis.Start(t), and need not close it.
func Example() {
	srv, err := fakeredis.Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer srv.Close()

	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	replies := bufio.NewScanner(conn)
	do := func(command string) {
		fmt.Fprintf(conn, "%s\r\n", command)
		replies.Scan()
		fmt.Printf("%s: %s\n", command, replies.Text())
	}

	do("SET lock mine NX PX 30000")
	do("SET lock theirs NX PX 30000")
	srv.Del("lock")
	do("SET lock theirs NX PX 30000")

	srv.Hook("set", fakeredis.Times(1, fakeredis.Action{Error: "LOADING Redis is loading the dataset in memory"}))
	do("SET lock mine")
	fmt.Println(srv.Get("lock"))
	fmt.Println(srv.Count("set"), "SET received")
	// Output:
	// SET lock mine NX PX 30000: +OK
	// SET lock theirs NX PX 30000: $-1
	// SET lock theirs NX PX 30000: +OK
	// SET lock mine: -LOADING Redis is loading the dataset in memory
	// theirs true
	// 4 SET received
}

// Servers on a Network have latency and can be cut off. In a testing/synctest bubble this takes no real time.
func ExampleNetwork() {
	network := fakeredis.NewNetwork()
	srv, err := fakeredis.New(fakeredis.Config{Network: network, Addr: "master-1:6379"})
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	network.SetLatency("master-1:6379", time.Millisecond)
	network.Cut("master-1:6379")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = network.Dial(ctx, "tcp", "master-1:6379")
	fmt.Println(err)
	// Output:
	// dial tcp master-1:6379: context deadline exceeded
}
