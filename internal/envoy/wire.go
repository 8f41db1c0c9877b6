package envoy

import "google.golang.org/protobuf/encoding/protowire"

// appendText appends a string field; proto3 leaves out empty ones.
func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendNumber appends an unsigned or enum field; proto3 leaves out zeros.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// nest appends a field whose content f appends: a message, or text. The length
// goes before the content; it is taken for one byte, and what is longer is moved.
func nest(b []byte, field protowire.Number, f func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	at := len(b)
	b = f(append(b, 0))
	n := len(b) - at - 1
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+1+more:], b[at+1:at+1+n])
	}
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

// openAny appends a google.protobuf.Any up to its value, which has n bytes.
func openAny(b []byte, typeURL string, n int) []byte {
	b = appendText(b, 1, typeURL)
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(n))
}

// openMessage begins a field that is a message of n bytes, which follow.
func openMessage(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
}

// sizeAny is the length of an Any whose value has n bytes.
func sizeAny(typeURL string, n int) int {
	return sizeText(typeURL) + protowire.SizeTag(2) + protowire.SizeBytes(n)
}

// sizeText is what appendText appends for a field of a small number.
func sizeText(s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(len(s))
}

// sizeMessage is the length of a field of a small number that is a message of n bytes.
func sizeMessage(n int) int { return protowire.SizeTag(1) + protowire.SizeBytes(n) }
