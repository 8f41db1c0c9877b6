// Package model holds the nouns of Spillway: identifiers, which have an order,
// and values, which have an equality.
//
// It is what the pure packages speak among themselves and what the shells turn
// the world into. Nothing here reads a clock, does I/O or starts a goroutine,
// and no value is changed once it is in a table.
//
// Identifiers implement Compare, so that no result depends on the order of a
// map. Values implement Equal, so that a result that did not change goes no
// further. A test checks that every Equal knows every field.
package model
