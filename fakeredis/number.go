package fakeredis

import "strconv"

// parseInt reads a number as strictly as Redis does: no sign but '-', no leading zero, no space.
func parseInt(b []byte) (int64, bool) {
	digits := b
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(b) > 20 || digits[0] == '+' || digits[0] == '-' || (digits[0] == '0' && len(b) > 1) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
