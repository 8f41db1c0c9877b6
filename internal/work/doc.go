// Package work is what those who write to an API server have in common: a queue
// in which lanes take turns, a gate for a server that does nothing but fail, and
// a client that sends each request once.
package work
