package redisproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// startTimeout bounds the time from exec to the first answer. A server needs
// some 10 ms; the rest is for machines that are busy with other tests.
const startTimeout = 15 * time.Second

// pollEvery is the pause between two looks at a condition that nothing
// announces: a server that listens, a process that has stopped.
const pollEvery = 2 * time.Millisecond

// askTimeout bounds one such look at a server. Whoever took the port first may
// accept and never answer; our server has given up then, which is looked at
// between two tries.
const askTimeout = 250 * time.Millisecond

var errPortTaken = errors.New("port was taken")

// run is one execution of the server, from exec to exit.
type run struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // closed when the process is gone and waited for
}

// start runs the server and waits until it answers. It is called before the
// process is known to anybody else, or with mu held.
func (p *Process) start() error {
	if err := os.MkdirAll(p.Dir(), 0o700); err != nil {
		return err
	}
	r, err := execute(p.command(), p.logPath())
	if err != nil {
		return err
	}
	if err := p.awaitAnswer(r); err != nil {
		_ = r.kill()
		tail := logTail(p.logPath())
		if strings.Contains(tail, "in use") { // EADDRINUSE, as every libc words it
			return fmt.Errorf("%w: %s", errPortTaken, tail)
		}
		return fmt.Errorf("%s %w: %s", filepath.Base(p.bin), err, tail)
	}
	p.run, p.stopped = r, false
	return nil
}

func (p *Process) command() *exec.Cmd {
	args := []string{
		"--port", strconv.Itoa(p.port),
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--dir", p.Dir(),
	}
	return exec.Command(p.bin, append(args, p.args...)...)
}

// execute starts cmd with its output in the file at logPath.
//
// One goroutine, locked to its thread, both starts the process and waits for
// it. The lock is for Linux, where a child's "parent death" signal is sent
// when the thread that forked it ends, and not when the program does: were the
// thread one that Go may end, the server would die in the middle of a test. So
// that thread lives exactly as long as the server, and no goroutine is left
// when the server is gone.
func execute(cmd *exec.Cmd, logPath string) (*run, error) {
	log, err := os.Create(logPath) // a file and not a pipe: nobody has to read it
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithUs()

	r := &run{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(r.done)
		defer log.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		r.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	if err := <-started; err != nil {
		<-r.done
		return nil, err
	}
	return r, nil
}

// ended reports whether the process is gone.
func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// kill ends the process and waits until it is gone.
func (r *run) kill() error {
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	return nil
}

// awaitAnswer waits until the server behind the port is ours and answers PING.
// A PING alone would not do: where another server took the port first, that
// one answers, while ours is just about to give up.
func (p *Process) awaitAnswer(r *run) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := p.answers(r.pid)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("did not answer in %v (%w)", startTimeout, err)
		}
		select {
		case <-r.done:
			return fmt.Errorf("ended at once (%v)", r.cmd.ProcessState)
		case <-time.After(pollEvery):
		}
	}
}

func (p *Process) answers(pid int) error {
	c, err := dial(p.Addr(), p.password, askTimeout)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.text("PING"); err != nil { // LOADING, for one
		return err
	}
	info, err := c.text("INFO", "server")
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "process_id:"); ok {
			if strings.TrimSpace(id) == strconv.Itoa(pid) {
				return nil
			}
			return fmt.Errorf("process %s answers, ours is %d; a wrapper script must exec the server", strings.TrimSpace(id), pid)
		}
	}
	return errors.New("INFO has no process_id")
}

// logTail returns the last lines of the server's log as one line.
func logTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}
