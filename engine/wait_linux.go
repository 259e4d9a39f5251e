package engine

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goredlock/redlock/conn"
)

// epoll is the waiter for raw sockets. An epoll descriptor over the sockets is
// itself pollable, so one goroutine parks in the runtime's poller for all of
// them and no thread is blocked (a blocking epoll_wait measured 0.22 × the
// locks per second at 16 callers).
//
// What is not obvious, each found by experiment:
//
//   - The runtime watches the descriptor edge-triggered. The function given to
//     Read may return false only after an epoll_wait(0) in that same call has
//     left nothing: data from before would never wake it.
//   - After a deadline has passed Read returns without calling the function,
//     therefore a passed deadline is renewed before the next Read.
//   - Only the parked goroutine sets a deadline in the future. A kick sets its
//     flag and then a deadline in the past; if the future one comes last after
//     all, the function finds the flag.
type epoll struct {
	epoch  time.Time
	fd     int
	file   *os.File // owns fd
	raw    syscall.RawConn
	check  func(fd uintptr) bool // made once: a closure per park would allocate
	kicked atomic.Bool
	parks  *atomic.Uint64

	// Owned by the holder of the reader role.
	events   [MaxMasters]unix.EpollEvent
	n        int     // events that check found
	deadline instant // of Read, if nothing has kicked since
}

// newWaiter returns the waiter for sockets, or for the portable pump.
func newWaiter(epoch time.Time, pump bool, parks *atomic.Uint64) (waiter, error) {
	if pump {
		return newSignals(epoch, parks), nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err == nil {
		err = file.SetReadDeadline(time.Time{}) // fails when the runtime cannot poll it
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	w := &epoll{epoch: epoch, fd: fd, file: file, raw: raw, parks: parks}
	w.check = func(uintptr) bool {
		if w.n = epollWait(w.fd, w.events[:]); w.n > 0 || w.kicked.Swap(false) {
			return true
		}
		w.parks.Add(1)
		return false
	}
	return w, nil
}

func (w *epoll) add(c *conn.Conn, s socket) error {
	ev := event(s, false)
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, c.FD(), &ev))
}

// writable changes the watch also under a goroutine that is parked: the kernel
// looks at once whether the socket is ready for what is new.
func (w *epoll) writable(c *conn.Conn, s socket, on bool) {
	ev := event(s, on)
	_ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_MOD, c.FD(), &ev) // fails only when c is closed
}

func (w *epoll) remove(c *conn.Conn) {
	_ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, c.FD(), nil)
}

func event(s socket, writable bool) unix.EpollEvent {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(s.master), Pad: int32(s.number)}
	if writable {
		ev.Events |= unix.EPOLLOUT
	}
	return ev
}

func (w *epoll) kick() {
	w.kicked.Store(true)
	_ = w.file.SetReadDeadline(w.epoch) // long past
}

func (w *epoll) close() { w.file.Close() }

func (w *epoll) poll(ready []socket) []socket {
	w.n = epollWait(w.fd, w.events[:])
	return w.found(ready)
}

func (w *epoll) park(until instant, ready []socket) []socket {
	// A deadline that stands and is early enough is left: at worst the park
	// ends once for nothing. So a caller that locks and unlocks without a
	// pause sets one deadline per RoundTimeout, not one per round.
	now := time.Since(w.epoch)
	if w.deadline <= now || w.deadline > until {
		w.deadline = until
		_ = w.file.SetReadDeadline(w.epoch.Add(until))
	}
	w.n = 0
	if err := w.raw.Read(w.check); err != nil {
		w.deadline = 0 // passed, or moved into the past by a kick
		w.n = epollWait(w.fd, w.events[:])
	}
	return w.found(ready)
}

func (w *epoll) found(ready []socket) []socket {
	for _, ev := range w.events[:w.n] {
		ready = append(ready, socket{int(ev.Fd), uint32(ev.Pad)})
	}
	return ready
}
