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
// Hosts follow the rule of Ingress, not RFC 4592: "*.shop.example" stands for
// one label, so a.shop.example is served and a.b.shop.example is not; and it
// holds for a name that exists only because something is below it, since the
// proxies would serve it too. An exact host comes before a wildcard.
//
// A Snapshot is built by small steps (WithZone, WithHost, ...) that each return
// a new one and share what did not change: one changed host costs the path to
// it, whatever the size of the zone. A shell publishes it by one pointer swap.
package zone
