package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows on one line, again and again, how far the run is. It is silent
// unless that goes to a terminal.
type progress struct {
	w        io.Writer
	terminal bool
	start    time.Time
	total    int
	done     int // steps before the one that is shown
	label    string
	stop     func() // the line's updates
}

// progressEvery is often enough to look alive, and too rarely to cost anything.
const progressEvery = 200 * time.Millisecond

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), stop: func() {}}
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

// begin starts a phase of so many steps.
func (p *progress) begin(total int) {
	p.stop()
	p.start, p.total, p.done, p.label = time.Now(), total, -1, ""
}

// next shows the phase's next step.
func (p *progress) next(label string) {
	p.stop()
	p.done++
	p.label = label
	if !p.terminal {
		return
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			p.line(progressText(p.label, p.done, p.total, time.Since(p.start)))
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	})
	p.stop = sync.OnceFunc(func() {
		close(quit)
		wg.Wait()
	})
}

// clear leaves the line empty, for what is printed next.
func (p *progress) clear() {
	p.stop()
	if p.terminal {
		p.line("")
	}
}

// progressText is the line: what is done, how far the run is, and, as soon as
// that can be said, how long it will still take.
func progressText(label string, done, total int, elapsed time.Duration) string {
	text := fmt.Sprintf("%3d %% %s", 100*done/max(total, 1), elapsed.Round(time.Second))
	if done > 0 {
		left := elapsed * time.Duration(total-done) / time.Duration(done)
		text += fmt.Sprintf(", %s to go", left.Round(time.Second))
	}
	return text + ": " + label
}

// lineWidth is what a line is padded to, in place of an escape sequence that not
// every terminal knows; a longer one would not fit into 80 columns.
const lineWidth = 79

// line replaces what the terminal's line shows.
func (p *progress) line(s string) {
	s = s[:min(len(s), lineWidth)]
	fmt.Fprint(p.w, "\r"+s+strings.Repeat(" ", lineWidth-len(s))+"\r")
}
