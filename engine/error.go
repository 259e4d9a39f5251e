package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goredlock/redlock/conn"
)

// step leaves out the address of a connection's error: a Failure names the
// master already.
func step(err error) error {
	var ce *conn.Error
	if errors.As(err, &ce) {
		return fmt.Errorf("%s: %w", ce.Op, ce.Err)
	}
	return err
}

// ServerError is an error reply of a master, made fit to be shown: Redis
// repeats the arguments of a command that it does not know, and the value of a
// lock is among them.
type ServerError string

const maxServerError = 200 // bytes of an error reply that are kept

func serverError(text []byte) ServerError {
	s := string(text[:min(len(text), maxServerError)])
	if i := strings.Index(s, ", with args beginning with"); i >= 0 {
		s = s[:i]
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	return ServerError(s)
}

func (e ServerError) Error() string { return string(e) }

// Code is the first word, by which Redis' errors are told apart.
func (e ServerError) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}
