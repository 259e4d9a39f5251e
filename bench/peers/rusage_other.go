//go:build !unix

package main

import "time"

// cpuTime is not known here; 0 is shown as unknown.
func cpuTime() time.Duration { return 0 }
