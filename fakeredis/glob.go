package fakeredis

// glob matches as KEYS and CONFIG GET do: * ? [a-z] [^a] and \ before a character that is meant literally.
func glob(pattern, s string) bool {
	for len(pattern) > 0 {
		switch pattern[0] {
		case '*':
			for len(pattern) > 1 && pattern[1] == '*' {
				pattern = pattern[1:]
			}
			for i := 0; i <= len(s); i++ {
				if glob(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case '[':
			if s == "" {
				return false
			}
			ok, rest := globClass(pattern[1:], s[0])
			if !ok {
				return false
			}
			pattern, s = rest, s[1:]
			continue
		case '\\':
			if len(pattern) > 1 {
				pattern = pattern[1:]
			}
			fallthrough
		default:
			if s == "" || s[0] != pattern[0] {
				return false
			}
		case '?':
			if s == "" {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

// globClass matches c against a class whose '[' has been read, and returns what follows the class.
func globClass(p string, c byte) (ok bool, rest string) {
	not := p != "" && p[0] == '^'
	if not {
		p = p[1:]
	}
	for ; p != "" && p[0] != ']'; p = p[1:] {
		switch {
		case p[0] == '\\' && len(p) > 1:
			p = p[1:]
			ok = ok || p[0] == c
		case len(p) >= 3 && p[1] == '-':
			lo, hi := min(p[0], p[2]), max(p[0], p[2])
			ok = ok || lo <= c && c <= hi
			p = p[2:]
		default:
			ok = ok || p[0] == c
		}
	}
	if p != "" {
		p = p[1:]
	}
	return ok != not, p
}
