package zone

import (
	"errors"
	"fmt"
	"strings"
)

// MaxName is the longest domain name in wire form, in bytes (RFC 1035, 2.3.4).
const MaxName = 255

// Name is a domain name in wire form: each label after its length, the empty
// root label last, ASCII letters in lower case. "\x04shop\x07example\x00" is
// shop.example. Only ParseName and the wire parser make one.
type Name string

// errName is what ParseName wraps.
var errName = errors.New("not a domain name")

// ParseName reads a name as people write it: with or without a trailing dot,
// in any case, without escapes. A label may be "*" or "**".
func ParseName(text string) (Name, error) {
	text = strings.ToLower(strings.TrimSuffix(text, "."))
	if text == "" {
		return "\x00", nil
	}
	b := make([]byte, 0, len(text)+2)
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 {
			return "", fmt.Errorf("%w: %q has a label of %d bytes, want 1 to 63", errName, text, len(label))
		}
		for _, c := range []byte(label) {
			if c <= ' ' || c >= 0x7f || c == '\\' {
				return "", fmt.Errorf("%w: %q has the byte %#x", errName, text, c)
			}
		}
		b = append(b, byte(len(label)))
		b = append(b, label...)
	}
	b = append(b, 0)
	if len(b) > MaxName {
		return "", fmt.Errorf("%w: %d bytes in wire form, want at most %d", errName, len(b), MaxName)
	}
	return Name(b), nil
}

// String is the name in presentation form with a trailing dot (RFC 1035, 5.1).
func (n Name) String() string {
	if n == "" || n == "\x00" {
		return "."
	}
	var b strings.Builder
	for ; len(n) > 1; n = n.parent() {
		for _, c := range []byte(n[1 : 1+n[0]]) {
			switch {
			case c == '.' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c <= ' ' || c >= 0x7f:
				fmt.Fprintf(&b, "\\%03d", c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('.')
	}
	return b.String()
}

// parent is the name without its first label. The root has none.
func (n Name) parent() Name { return n[1+int(n[0]):] }

// labels counts the labels without the root.
func (n Name) labels() int {
	count := 0
	for ; len(n) > 1; n = n.parent() {
		count++
	}
	return count
}

// within reports whether n is apex or below it.
func (n Name) within(apex Name) bool {
	for len(n) > len(apex) {
		n = n.parent()
	}
	return n == apex
}
