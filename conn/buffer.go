package conn

import (
	"sync/atomic"

	"github.com/goredlock/redlock/resp"
)

// Buffer holds bytes that several connections send: they are encoded once. It counts
// its holders; the last one to let go calls Recycle. A new Buffer has none: whoever
// makes or reuses it calls Retain first, and Release when it has been appended
// everywhere.
//
// B must not change between the first Append and Recycle. Retain and Release may be
// called by any goroutine.
type Buffer struct {
	B       []byte
	Owner   any           // for whoever recycles it
	Recycle func(*Buffer) // called by the last Release, if not nil; must not wait

	refs atomic.Int32
}

// Retain adds a holder.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Release removes a holder. The last one calls Recycle, after which the Buffer may be
// used anew. It panics if there is no holder: bytes of another round would be sent.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("conn: a Buffer was released more often than it was retained")
	case n == 0 && b.Recycle != nil:
		b.Recycle(b)
	}
}

// chunk is the range of a Buffer that is still to be sent.
type chunk struct {
	b        *Buffer
	from, to int
}

// Sizes of the read buffer. A whole reply is at most resp.MaxSize, and the decoder
// refuses a longer one as soon as that many bytes of it are there: one reply and one
// read always fit.
const (
	minInput = 8 << 10
	maxInput = resp.MaxSize + minInput
)

// input holds what has been received and not yet returned. Owned by the reader.
type input struct {
	buf   []byte // small, unless one reply needs more
	small []byte // kept, so that shrinking and growing again is no churn
	r, w  int    // buf[r:w] is to be decoded
}

func newInput() *input {
	small := make([]byte, minInput)
	return &input{buf: small, small: small}
}

// space returns room for a read. It moves what is left to the front, so that views
// into the buffer die here. It is empty only if the buffer is full of whole replies
// that nobody has asked for.
func (in *input) space() []byte {
	if in.r > 0 || in.w == 0 {
		left := in.buf[in.r:in.w]
		if len(left) < minInput/2 {
			in.buf = in.small // a buffer that grew is given back once it is empty enough
		}
		in.r, in.w = 0, copy(in.buf, left)
	}
	if len(in.buf)-in.w < len(in.buf)/4 && len(in.buf) < maxInput {
		grown := make([]byte, min(2*len(in.buf), maxInput))
		copy(grown, in.buf[:in.w])
		in.buf = grown
	}
	return in.buf[in.w:]
}

// added says that n bytes were read into the space.
func (in *input) added(n int) { in.w += n }

// next decodes the next whole reply. Attributes, which may precede a reply, are
// skipped.
func (in *input) next() (v resp.Value, ok bool, err error) {
	for in.r < in.w {
		v, n, err := resp.Decode(in.buf[in.r:in.w])
		if err == resp.ErrPartial {
			break
		}
		if err != nil {
			return resp.Value{}, false, err
		}
		in.r += n
		if v.Kind != resp.Attribute {
			return v, true, nil
		}
	}
	return resp.Value{}, false, nil
}
