package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a client process.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	stop context.CancelFunc
}

// startClient starts a process and gives it its job. It ends with ctx.
func startClient(ctx context.Context, j job) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &process{cmd: exec.CommandContext(ctx, exe), stop: stop}
	p.cmd.Env = append(os.Environ(), jobEnv+"=1")
	p.cmd.WaitDelay = time.Second
	var out io.ReadCloser
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		stop()
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := json.NewEncoder(p.in).Encode(j); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// end kills the process if it has not ended by itself.
func (p *process) end() {
	_ = p.in.Close()
	p.stop()
	_ = p.cmd.Wait()
}

func (p *process) order(word string) error {
	_, err := io.WriteString(p.in, word+"\n")
	return err
}

// await reads what the process says, which must be the state given.
func (p *process) await(state string, atMost time.Duration) (*result, error) {
	defer time.AfterFunc(atMost, p.stop).Stop()
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the client process ended, or said nothing for %v: %w", atMost, err)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Error != "":
		return nil, errors.New(m.Error)
	case m.State != state:
		return nil, fmt.Errorf("the client process is %q and not %q", m.State, state)
	}
	return m.Result, nil
}
