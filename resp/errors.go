package resp

import (
	"errors"
	"fmt"
)

// ErrPartial reports that the buffer ends before the reply does. Every byte so far
// is valid: read more and decode again from the same place.
var ErrPartial = errors.New("resp: partial reply")

// ErrInvalid is what errors.Is finds in every other error of [Decode]: whatever
// bytes follow, they cannot make the reply valid.
var ErrInvalid = errors.New("resp: invalid reply")

// Why a reply is invalid; each of these wraps [ErrInvalid]. They are static, so
// that a hostile master cannot make the decoder allocate.
var (
	ErrType       = invalid("unknown type byte")
	ErrTerminator = invalid("missing CR LF")
	ErrLength     = invalid("bad length")
	ErrStreamed   = invalid("streamed type")
	ErrInteger    = invalid("bad integer")
	ErrNull       = invalid("bad null")
	ErrBoolean    = invalid("bad boolean")
	ErrDouble     = invalid("bad double")
	ErrBigNumber  = invalid("bad big number")
	ErrVerbatim   = invalid("bad verbatim string")
	ErrNestedPush = invalid("push inside another reply")
	ErrTooLarge   = invalid("larger than 64 KiB")
	ErrTooDeep    = invalid("nested too deep")
)

func invalid(what string) error { return fmt.Errorf("%w: %s", ErrInvalid, what) }
