package model

import "strings"

// NormalPath is the path of a request as proxies match it and send it on, and
// false if they refuse it (400). It is what Envoy does with our settings: %2F and %5C
// are "/" and "\" (see EscapesSlash). Then its normalize_path (RFC 3986, 6.2.2, and the
// URL Standard): escapes of unreserved characters are decoded, characters that no URL has
// are escaped, "\" is "/", and "." and ".." are resolved, with what follows a ";" in them.
// Then "//" is "/". All else stays as it is, a "%" that begins no escape, too.
func NormalPath(path string) (string, bool) {
	var out []string
	rest, more := strings.TrimPrefix(slashes.Replace(path), "/"), true
	for more {
		var written string
		written, rest, more = strings.Cut(rest, "/")
		segment, ok := normalSegment(written)
		if !ok {
			return "", false
		}
		dots := segment
		if strings.Contains(written, ";") {
			dots, _, _ = strings.Cut(written, ";")
		}
		switch dots {
		case "..":
			out = out[:max(0, len(out)-1)]
			fallthrough
		case ".":
			if !more {
				out = append(out, "")
			}
		default:
			out = append(out, segment)
		}
	}
	return merged("/" + strings.Join(out, "/")), true
}

// slashes are all that is a "/", at once: what they leave is not read again.
var slashes = strings.NewReplacer("%2F", "/", "%2f", "/", "%5C", "/", "%5c", "/", `\`, "/")

// EscapesSlash reports whether a path has a "/" or "\" as an escape. Proxies do not pass
// such a request on, but redirect it to its normal path: whoever has sent it learns what
// it is taken for.
func EscapesSlash(path string) bool {
	lower := strings.ToLower(path)
	return strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c")
}

// merged is a path with one "/" where there are several in a row. Of nothing else Envoy
// leaves two.
func merged(path string) string {
	if len(path) > 1 && strings.Trim(path, "/") == "" {
		return "//"
	}
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

const (
	hexDigits = "0123456789ABCDEF"
	neverRaw  = "\"<>^`{|}" // in a path: they are escaped
)

// normalSegment is an element of a path with its characters in normal form.
func normalSegment(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%':
			b, ok := unescaped(s[i:])
			switch {
			case !ok:
				out.WriteByte(c)
				continue
			case b == 0:
				return "", false
			case unreserved(b):
				out.WriteByte(b)
			default:
				out.WriteString(s[i : i+3])
			}
			i += 2
		case c <= ' ' || c >= 0x7f || c == '#':
			return "", false
		case strings.IndexByte(neverRaw, c) >= 0:
			out.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), true
}

// unescaped is the byte of an escape that a text begins with, and false if it is none.
func unescaped(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	h, l := hexDigit(s[1]), hexDigit(s[2])
	return byte(h<<4 | l), h >= 0 && l >= 0
}

// Escaped reports whether each "%" in a path begins an escape.
func Escaped(path string) bool {
	for i := range len(path) {
		if _, ok := unescaped(path[i:]); path[i] == '%' && !ok {
			return false
		}
	}
	return true
}

func hexDigit(c byte) int {
	if c >= 'a' {
		c -= 'a' - 'A'
	}
	return strings.IndexByte(hexDigits, c)
}

// unreserved are the characters that mean the same with or without an escape (RFC
// 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
