package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/goredlock/redlock/resp"
)

// Error says at which step a connection failed. It never contains a password.
type Error struct {
	// Op is the step: dial, tls, hello, auth, select, handshake (waiting for the
	// optional replies), read, write or decode.
	Op string

	// Addr is the master, as Address.String gives it.
	Addr string

	// Sent says whether any byte of ours may have reached the master. In an error of
	// Dial these are the bytes of the handshake; later, those of Append.
	Sent bool

	Err error
}

// Error returns one line: the step, the master, the cause.
func (e *Error) Error() string {
	cause := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // of a custom Dial, with errors.Join
	return e.Op + " " + e.Addr + ": " + cause
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// normalize turns what ended a dial or a handshake into the error to report. If the
// caller's ctx has ended, that is the error. A time-out of our own is
// os.ErrDeadlineExceeded and not context.DeadlineExceeded, which Go's own dial
// time-out also answers to: the caller's deadline has not passed.
func normalize(ctx, own context.Context, timeout time.Duration, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded // the network noticed before ctx's timer did
	}
	if own.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		if timeout <= 0 {
			return os.ErrDeadlineExceeded
		}
		return fmt.Errorf("not done within %v: %w", timeout, os.ErrDeadlineExceeded)
	}
	if op, ok := err.(*net.OpError); ok && op.Err != nil {
		return op.Err // it would name the step and the address once more
	}
	return err
}

// maxReplyText limits what an error quotes of a master's words.
const maxReplyText = 200

// replyError makes an error of a reply that is not what a step of the login needs.
// Masters, and proxies in front of them, quote the command that they refuse,
// password and all: the arguments are cut off, and if a secret is still in the text
// nothing of it is shown.
func replyError(v resp.Value, secrets ...string) error {
	if !v.IsError() {
		return fmt.Errorf("unexpected reply: %v", v.Kind)
	}
	text, _, _ := strings.Cut(string(v.Data), ", with args") // beginning with: …
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	for _, secret := range secrets {
		if secret != "" && (strings.Contains(text, secret) || strings.Contains(shown, secret)) {
			return errors.New("refused (the master's message quotes the password and is not shown)")
		}
	}
	if len(shown) > maxReplyText {
		shown = strings.ToValidUTF8(shown[:maxReplyText], "") + "…"
	}
	if shown == "" {
		return errors.New("refused without a message")
	}
	return errors.New(shown)
}
