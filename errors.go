package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goredlock/redlock/engine"
)

// What can become of a round that does not succeed. Every *QuorumError matches
// exactly one of these with errors.Is.
var (
	// ErrLocked: somebody else has the resource, or the votes were split.
	ErrLocked = errors.New("redlock: locked by another")
	// ErrNoQuorum: too many masters failed, or the wait ended before they
	// answered; whether the resource is free is not known.
	ErrNoQuorum = errors.New("redlock: no quorum of masters answered")
	// ErrExpired: the masters granted too late for any validity to be left,
	// or the lock had expired before it could be extended. It has been
	// released again.
	ErrExpired = errors.New("redlock: expired")
	// ErrNotHeld: the lock is not held any more: it expired, was released, or
	// is another's.
	ErrNotHeld = errors.New("redlock: not held")
	// ErrClosed: the Client is closed.
	ErrClosed = errors.New("redlock: client is closed")
)

// QuorumError says why a round failed, vote by vote. Passwords and values of
// locks never appear in it.
type QuorumError struct {
	Op       string         // "acquire", "extend", "release" or "ready"
	Resource string         // empty for "ready"
	Masters  int            // N
	Quorum   int            // N/2+1
	Granted  int            // votes for it
	Refused  int            // votes against it; for a release, also of masters that were never sent the key
	Elapsed  time.Duration  // from the beginning of the call, or attempt, to its end
	Failed   []*MasterError // the masters that could not be asked or did not answer, as far as that is known

	kind error // the sentinel
	ctx  error // the context's error, if that ended the wait
}

// MasterError says why one master's vote failed. Err begins with the step, such
// as dial or read, unless it is an error reply of the master.
type MasterError struct {
	Addr string
	Err  error
}

// Error returns one line: the address and the cause.
func (e *MasterError) Error() string { return e.Addr + ": " + oneLine.Replace(e.Err.Error()) }

// oneLine is for the errors of a Config.Dial, which may be several, joined.
var oneLine = strings.NewReplacer("\r", "", "\n", "; ")

// Unwrap returns the cause.
func (e *MasterError) Unwrap() error { return e.Err }

// maxShownResource bounds how much of a resource an error's text repeats.
const maxShownResource = 64

// Error returns one line: what failed and why, the votes, the time, and the
// masters that failed.
func (e *QuorumError) Error() string {
	var b strings.Builder
	b.WriteString(e.kind.Error())
	b.WriteString(": ")
	b.WriteString(e.Op)
	if e.Op != "ready" {
		resource, more := e.Resource, ""
		if len(resource) > maxShownResource {
			resource, more = resource[:maxShownResource], "…"
		}
		b.WriteString(" " + strconv.Quote(resource) + more)
	}
	fmt.Fprintf(&b, ": %d of %d masters granted, %d refused, %d failed, quorum %d, after %v",
		e.Granted, e.Masters, e.Refused, len(e.Failed), e.Quorum, e.Elapsed.Round(time.Microsecond))
	if e.ctx != nil {
		b.WriteString(": " + e.ctx.Error())
	}
	for _, m := range e.Failed {
		b.WriteString("; " + m.Error())
	}
	return b.String()
}

// Unwrap returns the sentinel, the context's error if that ended the wait, and
// the masters' errors.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, 0, 2+len(e.Failed))
	errs = append(errs, e.kind)
	if e.ctx != nil {
		errs = append(errs, e.ctx)
	}
	for _, m := range e.Failed {
		errs = append(errs, m)
	}
	return errs
}

// failure makes the error of a round. kind may be overridden: a closed client
// is always ErrClosed.
func (c *Client) failure(op, resource string, kind error, o engine.Outcome, took time.Duration, ctx error) *QuorumError {
	if errors.Is(o.Err, engine.ErrClosed) {
		kind, ctx = ErrClosed, nil
	}
	return &QuorumError{
		Op: op, Resource: resource,
		Masters: c.engine.N(), Quorum: engine.Quorum(c.engine.N()),
		Granted: o.Tally.Granted, Refused: o.Tally.Refused,
		Elapsed: took, Failed: c.masterErrors(o.Failures),
		kind: kind, ctx: ctx,
	}
}

func (c *Client) masterErrors(failures []engine.Failure) []*MasterError {
	if len(failures) == 0 {
		return nil
	}
	errs := make([]*MasterError, len(failures))
	for i, f := range failures {
		errs[i] = &MasterError{Addr: c.addrs[f.Master].String(), Err: f.Err}
	}
	return errs
}

// endedBy returns the error of the context that ended a round, if it did: its
// deadline may have ended the round before its own timer fired.
func endedBy(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !now.Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
