//go:build !linux

package conn

import (
	"strings"
	"testing"
)

func poll(t *testing.T, _ int, _ bool) { t.Fatal("no descriptors here") }

func localAddr(t *testing.T, c *client) string {
	return c.Conn.t.(*pump).nc.LocalAddr().String()
}

func isReset(err error) bool {
	return strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "pipe")
}
