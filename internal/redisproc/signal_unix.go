//go:build unix

package redisproc

import "syscall"

func suspend(r *run) error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(r)
}

func resume(r *run) error { return r.cmd.Process.Signal(syscall.SIGCONT) }
