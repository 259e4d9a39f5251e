package resp

// MaxSize limits the bytes of one whole encoded reply, nested ones included. A
// lock's replies are a few bytes; the largest that we ask for is INFO, at about 7
// KiB. Without a limit, one hostile or broken master could cost a client any amount
// of memory.
const MaxSize = 64 << 10

// MaxDepth limits how deep aggregates nest; an array of integers has depth 1. The
// decoder keeps one counter for each level, in a fixed array, so that it need
// neither recurse nor allocate.
const MaxDepth = 8

// minElement is the size of the smallest reply, such as "_\r\n". Elements that are
// still to come take at least that much each, so a count can be refused as soon as
// it is read.
const minElement = 3

// Decode decodes the reply at the start of buf. It has three outcomes:
//
//   - whole: v is the reply, n > 0 the number of its bytes, err nil. Whatever
//     follows them in buf makes no difference.
//   - partial: n is 0 and err is [ErrPartial]. Decode again, from the same place,
//     when there are more bytes. An empty buf is partial.
//   - invalid: n is 0 and err wraps [ErrInvalid] and says what is wrong. More bytes
//     cannot help. This is decided as early as possible: an unknown type byte at
//     that byte, a length over the limit at the digit that exceeds it.
//
// A reply is invalid as well if it takes more than [MaxSize] bytes or nests deeper
// than [MaxDepth].
//
// A Push or an Attribute is returned as a Value of its own, before the reply that it
// precedes; the caller goes on behind it. Inside an aggregate an Attribute is
// checked but does not count as an element, and a Push is invalid.
//
// Decode allocates nothing. v.Data is a view into buf.
func Decode(buf []byte) (v Value, n int, err error) {
	n, err = v.Decode(buf)
	return v, n, err
}

// Decode is the function [Decode] into *v, whatever v was before; after an error it
// is the zero Value. For a hot path: it takes 5 ns for "+OK\r\n" where the function
// takes 12, because a Value is too large for registers, and each copy of one that was
// just written waits for the writes.
func (v *Value) Decode(buf []byte) (n int, err error) {
	*v = Value{}
	// The replies that nearly every vote consists of, without a call.
	if len(buf) >= 3 {
		switch Kind(buf[0]) {
		case SimpleString:
			if len(buf) >= 5 && string(buf[1:5]) == "OK\r\n" {
				v.Kind, v.Data = SimpleString, buf[1:3:3]
				return 5, nil
			}
		case Bulk:
			if len(buf) >= 5 && string(buf[1:5]) == "-1\r\n" {
				v.Kind = Null
				return 5, nil
			}
		case Integer:
			if len(buf) >= 4 && isDigit(buf[1]) && string(buf[2:4]) == "\r\n" {
				v.Kind, v.Int = Integer, int64(buf[1]-'0')
				return 4, nil
			}
		case Null:
			if string(buf[1:3]) == "\r\n" {
				v.Kind = Null
				return 3, nil
			}
		}
	}
	n, err = element(v, buf, MaxSize)
	if err == nil && v.Int > 0 && v.IsAggregate() {
		head := n
		n, err = elements(buf, head, int(v.Int))
		if err == nil {
			v.Data = buf[head:n:n]
		}
	}
	if err != nil {
		*v = Value{}
		return 0, err
	}
	return n, nil
}

// elements finds the end of the n elements that start at buf[pos], with everything
// that is nested in them.
func elements(buf []byte, pos, n int) (end int, err error) {
	var left [MaxDepth]int // elements that each open aggregate still waits for
	left[0] = n
	top := 0
	due := n // their sum; pos + minElement*due <= MaxSize holds throughout
	var v Value
	for {
		for left[top] == 0 {
			if top == 0 {
				return pos, nil
			}
			top--
		}
		if pos == len(buf) {
			return 0, ErrPartial
		}
		b := buf[pos:]
		kind := Kind(b[0])
		if kind == Push {
			// The specification has pushes come between replies only. Some versions
			// of Redis 6 broke that with client tracking, and sent one that did not
			// count as an element; to take it for one would put the stream out of step.
			return 0, ErrNestedPush
		}
		if top == MaxDepth-1 && opens(b) {
			return 0, ErrTooDeep
		}
		if kind != Attribute { // which comes on top of the elements that are due
			left[top]--
			due--
		}
		size, err := element(&v, b, MaxSize-pos-minElement*due)
		if err != nil {
			return 0, err
		}
		pos += size
		if v.Int > 0 && v.IsAggregate() {
			top++
			left[top] = int(v.Int)
			due += int(v.Int)
		}
	}
}

// opens reports whether b certainly starts an aggregate. An array does not before
// its first digit, for it may still turn out to be the null "*-1\r\n".
func opens(b []byte) bool {
	switch Kind(b[0]) {
	case Map, Set, Attribute:
		return true
	case Array:
		return len(b) > 1 && isDigit(b[1])
	}
	return false
}

// element decodes a reply that is not an aggregate, or the head of one, into v. It
// may take at most limit bytes; the elements behind a head count towards them, with
// the least that they can take. After an error v holds nothing of use.
func element(v *Value, b []byte, limit int) (n int, err error) {
	if len(b) > limit {
		b = b[:limit] // nothing beyond it may matter, and no scan goes beyond it
	}
	err = ErrPartial
	*v = Value{}
	if len(b) > 0 {
		v.Kind = Kind(b[0])
		switch v.Kind {
		case SimpleString, Error:
			n, err = line(b)
		case Integer:
			v.Int, n, err = integer(b)
		case Bulk, BulkError, Verbatim:
			n, err = bulk(v, b, limit)
		case Array, Map, Set, Attribute, Push:
			n, err = head(v, b, limit)
		case Null:
			n, err = terminator(b, 1, ErrNull)
		case Boolean:
			v.Int, n, err = boolean(b)
		case Double:
			n, err = double(b)
		case BigNumber:
			n, err = bigNumber(b)
		default:
			err = ErrType
		}
	}
	if err != nil {
		if err == ErrPartial && len(b) >= limit {
			err = ErrTooLarge
		}
		return 0, err
	}
	switch v.Kind {
	case SimpleString, Error, Double, BigNumber:
		v.Data = b[1 : n-2 : n-2]
	}
	return n, nil
}

// head decodes the head of an aggregate: "*2\r\n".
func head(v *Value, b []byte, limit int) (n int, err error) {
	per := 1
	if v.Kind == Map || v.Kind == Attribute {
		per = 2
	}
	count, n, err := length(b, per*minElement, 0, limit)
	if err != nil {
		return 0, err
	}
	if count < 0 {
		v.Kind = Null
		return n, nil
	}
	v.Int = int64(count * per)
	v.Data = b[n:n:n]
	return n, nil
}

// bulk decodes a reply of a length and as many bytes: "$2\r\nOK\r\n".
func bulk(v *Value, b []byte, limit int) (n int, err error) {
	size, start, err := length(b, 1, len("\r\n"), limit)
	if err != nil {
		return 0, err
	}
	if size < 0 {
		v.Kind = Null
		return start, nil
	}
	end := start + size
	if v.Kind == Verbatim {
		if !validFormat(b[start:min(end, len(b))]) {
			return 0, ErrVerbatim
		}
		start += len("txt:")
	}
	n, err = terminator(b, end, ErrTerminator)
	if err != nil {
		return 0, err
	}
	v.Data = b[start:end:end]
	return n, nil
}

// validFormat checks the start of a verbatim string: three letters or digits that
// name its format, and a colon. text may still end before that.
func validFormat(text []byte) bool {
	for i, c := range text[:min(len(text), len("txt:"))] {
		if i == len("txt") {
			return c == ':'
		}
		if lower := c | 0x20; !isDigit(c) && (lower < 'a' || lower > 'z') {
			return false
		}
	}
	return true
}

// length decodes the line of a length or count, and refuses it at the digit that
// makes the line, each things and extra more bytes exceed limit. It returns -1 for
// the nulls of RESP2.
func length(b []byte, each, extra, limit int) (size, n int, err error) {
	least := 0
	if Kind(b[0]) == Verbatim {
		least = len("txt:")
	}
	i := 1
	for ; i < len(b) && isDigit(b[i]); i++ {
		if i > 1 && size == 0 {
			return 0, 0, ErrLength // a leading zero
		}
		size = size*10 + int(b[i]-'0') // cannot overflow: the limit is checked at each digit
		if i+len("d\r\n")+size*each+extra > limit {
			return 0, 0, ErrTooLarge
		}
		if size == 0 && least > 0 {
			return 0, 0, ErrVerbatim // no digit may follow that would make it longer
		}
	}
	if i > 1 || i == len(b) {
		if size < least && i < len(b) {
			return 0, 0, ErrVerbatim
		}
		n, err = terminator(b, i, ErrLength)
		return size, n, err
	}
	switch {
	case b[1] == '?':
		return 0, 0, ErrStreamed
	case b[1] != '-' || Kind(b[0]) != Bulk && Kind(b[0]) != Array:
		return 0, 0, ErrLength
	case len(b) == 2:
		return 0, 0, ErrPartial
	case b[2] != '1':
		return 0, 0, ErrLength
	}
	n, err = terminator(b, 3, ErrLength)
	return -1, n, err
}
