// Package ingest turns one Kubernetes object into rows and findings; one file
// per kind.
//
// Its functions are pure and total: they never panic, never change or keep
// their argument, and the same object always gives the same row. They trust
// nothing an API server was meant to validate, since a kcp hub validates
// structure only and any client can write nonsense that way. The smallest
// invalid part is left out, with a finding that names the field and says what
// to do; the rest is served. An object that gives no row gives a finding,
// except those that are not for us.
//
// What a reference points at is not known here: that is for package fleet.
package ingest
