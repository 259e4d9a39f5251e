package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows on one line, again and again, how far the run is. It is silent
// unless that goes to a terminal.
type progress struct {
	w        io.Writer
	terminal bool
	label    string // of the row
}

// progressEvery is often enough to look alive, and too rarely to cost anything.
const progressEvery = 100 * time.Millisecond

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w)}
}

// isTerminal reports whether w is a character device: a terminal, or the null
// device, which does not mind.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// row begins row i of n.
func (p *progress) row(i, n, callers int) {
	p.label = fmt.Sprintf("row %d of %d, callers: %d", i, n, callers)
	if p.terminal {
		p.line(p.label + ", connecting and warming up")
	}
}

// clear leaves the line empty, for what is printed next.
func (p *progress) clear() {
	if p.terminal {
		p.line("")
	}
}

// watch shows the row's locks until the returned function is called, which waits
// until nothing more is written.
func (p *progress) watch(total time.Duration, locks func() int64) (stop func()) {
	if !p.terminal {
		return func() {}
	}
	quit, stopped := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(stopped)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.line(progressText(p.label, time.Since(start), total, locks()))
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-stopped
	}
}

func progressText(label string, elapsed, total time.Duration, locks int64) string {
	elapsed = min(elapsed, total)
	return fmt.Sprintf("%s, %.1f of %.1f s, %.0f locks/s",
		label, elapsed.Seconds(), total.Seconds(), float64(locks)/max(elapsed.Seconds(), 1e-9))
}

// lineWidth is what a line is padded to, in place of an escape sequence that not
// every terminal knows; a longer one would not fit into 80 columns.
const lineWidth = 79

// line replaces what the terminal's line shows.
func (p *progress) line(s string) {
	s = s[:min(len(s), lineWidth)]
	fmt.Fprint(p.w, "\r"+s+strings.Repeat(" ", lineWidth-len(s))+"\r")
}
