// Package zone decides what our DNS server says. Answer is a pure function of
// an immutable Snapshot, a question and a client; nothing here does I/O, reads
// a clock or starts a goroutine, and answering allocates nothing.
//
// What it holds true:
//   - The nearest edge to the client comes first, and the A and AAAA records of
//     a name point to the same edges.
//   - A name that some object asks for is never answered NXDOMAIN, and what is
//     not known yet is SERVFAIL, never a smaller truth.
//   - Two clients that share the prefix an answer's scope names get that answer.
//   - A snapshot depends on what it holds, not on the order in which it got it.
//
// Wildcards say what the proxies serve. That of an Ingress stands for one label, so
// with "*.shop.example" a.shop.example is answered and a.b.shop.example is not. One
// of any depth is a wildcard of RFC 4592: it covers what is below by any number of
// labels, not the name that it is below, and ends where another zone begins. Both
// also cover, which RFC 4592 does not have, a name that exists only because
// something is below it, and names below one that exists: the proxies serve them
// too, and somebody's new host must not take another's names out of DNS. An exact
// host comes before a wildcard, then the longest suffix, and of one suffix the
// wildcard for one label (model.Host.Wider).
//
// A Snapshot is built by small steps (WithZone, WithHost, ...) that each return
// a new one and share what did not change: one changed host costs the path to
// it, whatever the size of the zone. A shell publishes it by one pointer swap.
package zone
