package resp

import "math"

// line finds the end of a line of any text.
func line(b []byte) (n int, err error) {
	for i := 1; i < len(b); i++ {
		if b[i] == '\r' || b[i] == '\n' {
			return terminator(b, i, ErrTerminator)
		}
	}
	return 0, ErrPartial
}

// terminator returns the index behind the CR LF that must be at b[i], which may be
// past the end of b. wrong is the error for anything else there than CR or LF.
func terminator(b []byte, i int, wrong error) (n int, err error) {
	if i >= len(b) {
		return 0, ErrPartial
	}
	if b[i] != '\r' {
		if b[i] == '\n' {
			return 0, ErrTerminator
		}
		return 0, wrong
	}
	if i+1 == len(b) {
		return 0, ErrPartial
	}
	if b[i+1] != '\n' {
		return 0, ErrTerminator
	}
	return i + 2, nil
}

// integer decodes an integer the way servers print it: no plus sign, no leading
// zero, no minus zero, nothing that int64 cannot hold.
func integer(b []byte) (v int64, n int, err error) {
	const maxDigits = 19 // of an int64
	i := 1
	top := uint64(math.MaxInt64)
	if i < len(b) && b[i] == '-' {
		i++
		top++ // -2^63 has no positive counterpart
	}
	first := i
	var abs uint64
	for ; i < len(b) && isDigit(b[i]); i++ {
		if i > first && abs == 0 || i-first == maxDigits {
			return 0, 0, ErrInteger
		}
		abs = abs*10 + uint64(b[i]-'0') // 19 digits cannot overflow a uint64
		if abs > top {
			return 0, 0, ErrInteger
		}
	}
	if first == 2 && i > first && abs == 0 {
		return 0, 0, ErrInteger
	}
	if i == first && i < len(b) {
		return 0, 0, ErrInteger
	}
	n, err = terminator(b, i, ErrInteger)
	if first == 2 {
		return int64(-abs), n, err
	}
	return int64(abs), n, err
}

// boolean decodes "#t\r\n" or "#f\r\n".
func boolean(b []byte) (v int64, n int, err error) {
	if len(b) > 1 {
		switch b[1] {
		case 't':
			v = 1
		case 'f':
		default:
			return 0, 0, ErrBoolean
		}
	}
	n, err = terminator(b, 2, ErrBoolean)
	return v, n, err
}

// double checks a floating-point number: inf, nan, or decimal digits with an
// optional sign, fraction and exponent. It accepts -nan, which Redis before 7.2
// prints where its C library does.
func double(b []byte) (n int, err error) {
	i := skipSign(b, 1)
	if i < len(b) && (b[i] == 'i' || b[i] == 'n') && b[i-1] != '+' {
		word := "inf"
		if b[i] == 'n' {
			word = "nan"
		}
		for j := range len(word) {
			if i+j == len(b) {
				return 0, ErrPartial
			}
			if b[i+j] != word[j] {
				return 0, ErrDouble
			}
		}
		return terminator(b, i+len(word), ErrDouble)
	}
	i, err = digits(b, i, ErrDouble)
	if err == nil && b[i] == '.' {
		i, err = digits(b, i+1, ErrDouble)
	}
	if err == nil && (b[i] == 'e' || b[i] == 'E') {
		i, err = digits(b, skipSign(b, i+1), ErrDouble)
	}
	if err != nil {
		return 0, err
	}
	return terminator(b, i, ErrDouble)
}

// bigNumber checks an integer of any length.
func bigNumber(b []byte) (n int, err error) {
	i, err := digits(b, skipSign(b, 1), ErrBigNumber)
	if err != nil {
		return 0, err
	}
	return terminator(b, i, ErrBigNumber)
}

// digits returns the index of the byte behind the digits that must be at b[i]. It is
// partial while b has no such byte.
func digits(b []byte, i int, wrong error) (end int, err error) {
	end = i
	for end < len(b) && isDigit(b[end]) {
		end++
	}
	if end == len(b) {
		return 0, ErrPartial
	}
	if end == i {
		return 0, wrong
	}
	return end, nil
}

func skipSign(b []byte, i int) int {
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' < 10 }
