// Package hub writes what users are told into the hub: statuses, events, the
// finalizer that holds a leaving member back, and GlobalIngresses. It is the only writer there.
//
// Its contract: it is told what is wanted, per object, and works on it until
// the hub has it: retries back off, a newer want replaces an older one, and
// what is already there is not written again. It never blocks who tells it.
// It writes nothing until it is opened, since a status made of half of the
// facts would be a lie.
package hub
