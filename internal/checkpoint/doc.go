// Package checkpoint keeps input rows on local disk, so that a process that
// starts while the hub or a member is away goes on from what was known.
//
// Its contract: what is read back is the state after some commit, whole, or
// nothing at all. A file that can't be read completely, of another version or
// with another key, is one warning and a start without: half a truth would
// take away what is still served. It is kept aside as checkpoint.bad. Only what
// a crash left of the last write, be it cut off, zeros or some of its pages, is
// left out, which gives an earlier commit; if a later one can be read, it was
// not a crash. Nothing is written before the rows are complete for the first
// time.
//
// The version before and this one read each other's files: fields are known by
// name, a reader skips those that it does not know, and a value that lacks one
// says itself what that means (Complete).
//
// Rows hold private keys and credentials, so everything is encrypted (AES-256
// in GCM) with a key in a file of its own; both files have mode 0600. The key
// may be put on another volume. An older file of the same key is accepted:
// docs/reference/checkpoint.md says what follows.
//
// Files that somebody takes away while they are in use are put back, unless
// another process has the folder by then.
//
// It is no embedded database (bbolt): that has pages without checksums, so that
// each row would still be sealed, bound to its place and searched for damage
// here, and a state that is whole or none would be a scan of it all. What is
// here is read once, in order, and only appended to.
//
// It costs what changes: rows that changed are appended, ten times a
// second at most, and the file is rewritten when most of it is out of date.
package checkpoint
