package resp

import "strconv"

// AppendCommand appends a whole command, an array of bulk strings, to dst and
// returns the extended slice. Arguments may hold any bytes. It allocates only if
// dst has too little capacity. Without arguments it appends an empty array, to
// which a server sends no reply.
func AppendCommand[S ~string | ~[]byte](dst []byte, args ...S) []byte {
	dst = AppendArray(dst, len(args))
	for _, arg := range args {
		dst = AppendBulk(dst, arg)
	}
	return dst
}

// AppendArray appends the head of a command of n arguments, "*n\r\n", to dst and
// returns the extended slice. The caller appends exactly n arguments behind it,
// with [AppendBulk] or [AppendInt].
func AppendArray(dst []byte, n int) []byte {
	return appendHead(dst, '*', n)
}

// AppendBulk appends s as one argument, "$len\r\ns\r\n", to dst and returns the
// extended slice. s may hold any bytes, CR and LF included.
func AppendBulk[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = appendHead(dst, '$', len(s))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendInt appends n as one argument, in decimal, to dst and returns the extended
// slice: 12 becomes "$2\r\n12\r\n". It is a bulk string, because servers take no
// other type in a command.
func AppendInt(dst []byte, n int64) []byte {
	var digits [20]byte // the longest, -9223372036854775808, has 20
	return AppendBulk(dst, strconv.AppendInt(digits[:0], n, 10))
}

// appendHead appends a type byte, a number and CR LF.
func appendHead(dst []byte, kind byte, n int) []byte {
	switch { // nearly every argument has one of the first two: one append instead of three
	case uint(n) < 10:
		return append(dst, kind, '0'+byte(n), '\r', '\n')
	case uint(n) < 100:
		return append(dst, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}
