package xds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// What a client may say at a time. The table of docs/envoy.md has all limits on
// a client.
const (
	// maxName is the longest name, version or type URL, in bytes. The longest
	// name that is served is a secret's: namespace/name, 317 bytes, with a
	// workspace in front of it.
	maxName = 512
	// firstRequestBytes is the largest first request of a type, which lists all
	// that a proxy has: 100,000 names of 150 bytes, twice, with their versions.
	firstRequestBytes = 32 << 20
	// laterRequestBytes is the largest of the others. A proxy asks for what one
	// response names, and that is 1 MiB.
	laterRequestBytes = 4 << 20
	// maxPart is the largest part of a request that is no name: the description
	// of a node (61 KB of Envoy 1.40), the words of a rejection.
	maxPart = 1 << 20
	// maxNode is the longest node.id and node.cluster that logs and tables show.
	maxNode = 256
	// maxVersion is the same for the version of a client.
	maxVersion = 64
	// maxWords is the longest reason of a rejection that is kept, and fewWords that
	// of a stream that refuses more than manyRefused resources: it goes to logs,
	// findings and tables.
	maxWords    = 1 << 10
	fewWords    = 128
	manyRefused = 100
	// windowBytes is what gRPC takes of a stream before we ask for it, and
	// connectionBytes of a connection. Of what was asked for, one request is
	// worked on; of reports, one waits besides.
	windowBytes     = 1 << 20
	connectionBytes = 4 << 20
)

// inbound is a message on its way in. Check sees its bytes before they are
// unpacked, so that what a client may not say costs no more than these.
type inbound struct {
	conn  *connection           // that it came on
	brief func(raw []byte) bool // takes what need not be unpacked; nil: there is no such thing
	check func(raw []byte) error
	into  func() proto.Message
	err   error
}

func (in *inbound) unmarshal(raw []byte) error {
	in.conn.took(len(raw))
	if in.brief != nil && in.brief(raw) {
		return nil
	}
	if in.err = in.check(raw); in.err != nil {
		return nil //nolint:nilerr // who receives it is told by err: gRPC would close the stream without the reason
	}
	return proto.Unmarshal(raw, in.into())
}

// reader receives the messages of a stream that check lets pass; nil is one that
// brief took.
func reader[T any, M interface {
	*T
	proto.Message
}](str interface {
	Context() context.Context
	RecvMsg(m any) error
}, check func([]byte) error, brief func([]byte) bool) func() (M, error) {
	var m M
	in := &inbound{conn: connectionOf(str.Context()), brief: brief, check: check, into: func() proto.Message { m = new(T); return m }}
	return func() (M, error) {
		m, in.err = nil, nil
		if err := str.RecvMsg(in); err != nil {
			return m, err
		}
		return m, in.err
	}
}

// atMost refuses messages of more than so many bytes.
func atMost(limit int, what string) func([]byte) error {
	return func(raw []byte) error {
		if len(raw) > limit {
			return status.Errorf(codes.ResourceExhausted, "%s of %d bytes: %d are the limit", what, len(raw), limit)
		}
		return nil
	}
}

// role is what a field of a request is to us.
type role uint8

const (
	other role = iota
	typeURL
	subscribed
	unsubscribed
	held // a name with its version
	roles
)

var claims = [roles]string{subscribed: "subscribes to", unsubscribed: "unsubscribes from", held: "holds"}

const (
	deltaType  = 2
	deltaNonce = 6
)

// The fields of requests, by number: of envoy.service.discovery.v3. A locator
// is a name, too.
var (
	deltaFields = []role{deltaType: typeURL, 3: subscribed, 4: unsubscribed, 5: held, 8: subscribed, 9: unsubscribed}
	worldFields = []role{3: subscribed, 4: typeURL, 7: subscribed}
)

// gauge measures the requests of one stream.
type gauge struct {
	fields []role
	names  int // in one request
	asked  [kinds]bool
}

// check tells what is wrong with a request.
func (g *gauge) check(raw []byte) error {
	var counts [roles]int
	var typ []byte
	for rest := raw; len(rest) > 0; {
		num, value, n := field(rest)
		if n < 0 {
			return nil // the protobuf library says what is wrong
		}
		rest = rest[n:]
		what := other
		if int(num) < len(g.fields) {
			what = g.fields[num]
		}
		if err := fits(num, what, value); err != nil {
			return err
		}
		if counts[what]++; counts[what] > g.names && claims[what] != "" {
			return status.Errorf(codes.ResourceExhausted, "a request %s more than %d names", claims[what], g.names)
		}
		if what == typeURL {
			typ = value
		}
	}
	return g.size(typ, len(raw))
}

// acknowledgement reads a request that says nothing but that a response was taken,
// as nearly all do.
func (g *gauge) acknowledgement(raw []byte) (r Request, ok bool) {
	if len(raw) > maxName {
		return r, false
	}
	for len(raw) > 0 {
		num, value, n := field(raw)
		if n < 0 {
			return r, false
		}
		switch num {
		case deltaType:
			k, served := kindOf[TypeURL(value)]
			if !served || !g.asked[k] {
				return r, false
			}
			r.Type = k.url()
		case deltaNonce:
			r.Nonce = string(value)
		default:
			return r, false
		}
		raw = raw[n:]
	}
	return r, r.Type != "" && r.Nonce != ""
}

// field returns the next field, without a value if that has no bytes, and its
// length, negative if there is none.
func field(raw []byte) (num protowire.Number, value []byte, n int) {
	num, wire, n := protowire.ConsumeTag(raw)
	if n < 0 {
		return num, nil, n
	}
	length := 0
	if wire == protowire.BytesType {
		value, length = protowire.ConsumeBytes(raw[n:])
	} else {
		length = protowire.ConsumeFieldValue(num, wire, raw[n:])
	}
	if length < 0 {
		return num, nil, length
	}
	return num, value, n + length
}

// fits checks one field of a request.
func fits(num protowire.Number, what role, value []byte) error {
	switch {
	case what == other && len(value) > maxPart:
		return status.Errorf(codes.InvalidArgument, "field %d of a request has %d bytes: %d are the limit", num, len(value), maxPart)
	case what == other:
		return nil
	case what == held:
		for rest := value; len(rest) > 0; {
			_, part, n := field(rest)
			if n < 0 {
				return nil
			}
			if err := fits(num, subscribed, part); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	case len(value) > maxName:
		return status.Errorf(codes.InvalidArgument, "a name of %d bytes, %+.40q…: %d are the limit", len(value), value, maxName)
	}
	return nil
}

// size checks the whole: the first request of a type may be larger.
func (g *gauge) size(typ []byte, n int) error {
	limit, which := laterRequestBytes, "a request"
	if k, served := kindOf[TypeURL(typ)]; served && !g.asked[k] {
		limit, which = firstRequestBytes, "the first request"
		g.asked[k] = true
	}
	if n > limit {
		return status.Errorf(codes.ResourceExhausted, "%s for %s of %d bytes: %d are the limit", which, words(TypeURL(typ).Short(), maxName), n, limit)
	}
	return nil
}

// inbox is what a client said and nobody took yet: one message. It is closed
// when the client says no more, err tells why.
type inbox[T any] struct {
	in  chan T
	err error
}

// receive hands on what a client says until its stream ends.
func receive[T any](ctx context.Context, recv func() (T, error)) *inbox[T] {
	box := &inbox[T]{in: make(chan T)}
	go func() {
		defer close(box.in)
		for {
			m, err := recv()
			if err != nil {
				box.err = err
				return
			}
			select {
			case box.in <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return box
}

// ended is how a stream ends that nothing is received from: as the client
// wanted, or with what it said too much of.
func ended(err error) (reason string, _ error) {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.InvalidArgument:
		return reasonLimit, err
	}
	return reasonClient, nil
}

// clipped is a text that a client sent, for logs, findings and tables: what no
// terminal prints is a space, and one that is too long, or had such, ends with a
// hash, so that two do not become one.
func clipped(text string, longest int) string {
	if len(text) <= longest && printable(text) == text {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := "…" + hex.EncodeToString(sum[:8])
	return strings.ToValidUTF8(cut(printable(cut(text, longest)), longest-len(hash)), "") + hash
}

// words are those of a client that say why, for people: as clipped, but without a
// hash, since they tell nothing apart.
func words(text string, longest int) string {
	if len(text) > longest {
		text = strings.ToValidUTF8(cut(text, longest-len("…")), "") + "…"
	}
	return printable(text)
}

func cut(text string, longest int) string { return text[:min(len(text), longest)] }

// printable replaces control characters, and what is no text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
