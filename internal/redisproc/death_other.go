//go:build !linux && !freebsd

package redisproc

import "syscall"

// dieWithUs asks for nothing: these systems cannot tie a child's life to its
// parent's. Close and a test's cleanup still end the servers; only a program
// that is killed leaves them behind.
func dieWithUs() *syscall.SysProcAttr { return nil }
