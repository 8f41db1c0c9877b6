// Package dnsserver is the authoritative DNS server: UDP and TCP sockets around
// zone.Answer. It decides nothing about records.
//
// What it holds true:
//   - Queries are answered from the snapshot published last, by one atomic read;
//     Publish never waits for a query and a query never for Publish. Before the
//     first Publish every answer is SERVFAIL, never a smaller truth.
//   - It keeps answering for ever when nothing is published any more.
//   - No packet makes it panic, and no answer is larger than 1232 bytes over UDP
//     (512 without EDNS). What has the QR bit or no whole header is not answered.
//   - Answering over UDP allocates nothing.
//   - Addresses of clients are in no log and no metric.
//
// The wire format is read and written here (query.go, reply.go) for the few
// types we serve; the tests compare both with another implementation. EDNS and
// the client subnet option are understood, the rest of EDNS is ignored. There is
// no recursion, transfer, update, notify or DNSSEC: they are refused. There are no
// keys for TSIG: a signed query is told so (NOTAUTH, BADKEY), since an answer that
// is not signed is none for who signs (RFC 8945, 5.2).
package dnsserver
