// Package conn is one connection to one master.
//
// [Dial] connects, logs in and finds out what the master can do. It is the only
// function here that waits. From then on a connection has four verbs, none of which
// waits: [Conn.Append] queues the bytes of a command, [Conn.Flush] sends what the
// socket takes, [Conn.Fill] receives what is there, [Conn.Next] decodes it.
//
// On Linux a plain TCP or unix connection is a raw non-blocking descriptor
// ([Conn.FD]) that Go's poller does not know: the owner puts it into an epoll set of
// its own. TLS, a custom Dial and other systems go through a pump: two goroutines
// that read and write a net.Conn, and report progress through Options.Ready.
// [NeedsPump] says which it will be.
//
// # Concurrency
//
// Append, Flush, Pending and Shutdown may be called by any goroutine at any time.
// They and Close are ordered by one mutex, which is never held across anything that
// can wait, nor across a callback. Fill, Next and Close belong to one goroutine at a
// time, the reader; Close may run while others append, flush or shut down.
package conn
