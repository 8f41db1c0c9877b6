// Package cluster carries what API servers say into the mailbox of the one
// loop: the objects of the hub, and of each member that the hub names.
//
// Its contract: producers never block. A source that fails keeps its rows;
// only an object that was read to be gone, or a member that left, deletes. A
// relist puts its differences only. What a source says reaches the tables in
// an order in which nobody can mistake half of a first list for the whole:
// the row that says so comes last.
//
// It never writes to a hub or a member, never runs a program that a kubeconfig
// names, and never reads a file for one.
package cluster
