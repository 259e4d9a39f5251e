//go:build unix && !linux

package redisproc

// awaitStopped does nothing: without /proc there is no way to see that a child
// has stopped which does not take its exit status away from os.Process.
func awaitStopped(*run) error { return nil }
