// Package syncer writes leaves into one member and reads their statuses back.
// It is a library with its client passed in: it may run beside the hub, or in
// the member.
//
// Its contract: it is told which leaves there should be, per name, and works on
// that until the member has them. It never blocks who tells it, and a newer want
// replaces an older one. What is there already is not written again, also after
// a restart. What another hub or somebody else made is never touched. Nothing is
// deleted before all wants are known, the member's objects are listed in full,
// and, where it is many, somebody consents.
package syncer
