//go:build linux || freebsd

package redisproc

import "syscall"

// dieWithUs has the kernel kill the server when this program ends, even by
// SIGKILL or a test's time-out. On Linux "this program" means the thread that
// starts the server, see execute. A frozen server dies as well.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
