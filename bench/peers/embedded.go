package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goredlock/redlock/fakeredis"
)

// mastersEnv, set to a number, makes the program a process of that many embedded
// masters.
const mastersEnv = "REDLOCK_PEERS_EMBEDDED_MASTERS"

// embedded are masters of package fakeredis, in a process that this program
// talks to over a pipe: "freeze 3" is answered with "ok" or with a number.
type embedded struct {
	list  []string
	mu    sync.Mutex
	in    io.WriteCloser
	out   *bufio.Scanner
	ended func()
}

func startEmbedded(n int) (masters, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(context.Background()) // CommandContext kills
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), mastersEnv+"="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		kill()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		kill()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	e := &embedded{in: in, out: bufio.NewScanner(out)}
	e.ended = sync.OnceFunc(func() {
		late := time.AfterFunc(wireTimeout, kill)
		_ = in.Close()
		_ = cmd.Wait() // it has nothing more to say
		late.Stop()
		kill()
	})
	for len(e.list) < n && e.out.Scan() {
		e.list = append(e.list, e.out.Text())
	}
	if len(e.list) < n {
		e.ended()
		return nil, fmt.Errorf("the embedded masters ended: %v", cmd.ProcessState)
	}
	return e, nil
}

func (e *embedded) addrs() []string     { return e.list }
func (e *embedded) freeze(i int) error  { return e.order("freeze", i) }
func (e *embedded) thaw(i int) error    { return e.order("thaw", i) }
func (e *embedded) kill(i int) error    { return e.order("kill", i) }
func (e *embedded) restart(i int) error { return e.order("restart", i) }
func (e *embedded) clear(i int) error   { return e.order("clear", i) }
func (e *embedded) about() string       { return "fakeredis, in a process of its own" }
func (e *embedded) real() bool          { return false }
func (e *embedded) close()              { e.ended() }

// executed counts what was received: a fake that is not frozen executes that at
// once.
func (e *embedded) executed(i int) (int64, error) { return e.number("count", i) }

func (e *embedded) idle(int) (bool, error) { return true, nil }

func (e *embedded) left(i int) (int64, error) { return e.number("keys", i) }

func (e *embedded) order(verb string, i int) error {
	answer, err := e.ask(verb, i)
	if err == nil && answer != "ok" {
		err = errors.New(answer)
	}
	return err
}

func (e *embedded) number(verb string, i int) (int64, error) {
	answer, err := e.ask(verb, i)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

func (e *embedded) ask(verb string, i int) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := fmt.Fprintln(e.in, verb, i); err != nil {
		return "", err
	}
	if !e.out.Scan() {
		return "", io.ErrUnexpectedEOF
	}
	return e.out.Text(), nil
}

// asMasters says whether this process is to be n embedded masters.
func asMasters() (n int, ok bool) {
	n, err := strconv.Atoi(os.Getenv(mastersEnv))
	return n, err == nil && n > 0
}

// serveMasters is the process of the embedded masters: it prints an address per
// line and obeys until in ends. It outlives a signal from the keyboard, so that
// locks can still be released.
func serveMasters(n int, in io.Reader, out io.Writer) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	var list []*fakeredis.Server
	for range n {
		s, err := fakeredis.New(fakeredis.Config{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			return exitFailed
		}
		defer s.Close()
		list = append(list, s)
		fmt.Fprintln(out, s.Addr()) // if nobody reads, in ends as well
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, number, _ := strings.Cut(lines.Text(), " ")
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= n {
			fmt.Fprintf(out, "there is no master %q\n", number)
			continue
		}
		fmt.Fprintln(out, obey(list[i], verb))
	}
	return 0
}

// obey does to a master what a verb says, and returns the answer.
func obey(s *fakeredis.Server, verb string) string {
	var err error
	switch verb {
	case "freeze":
		s.Freeze()
	case "thaw":
		s.Thaw()
	case "kill":
		err = s.Refuse(true)
		s.Restart(false)
	case "restart":
		err = s.Refuse(false)
	case "clear":
		s.FlushAll()
	case "keys":
		return strconv.Itoa(len(s.Keys()))
	case "count":
		return strconv.Itoa(s.Count("set") + s.Count("eval") + s.Count("evalsha"))
	default:
		return fmt.Sprintf("unknown verb %q", verb)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}
