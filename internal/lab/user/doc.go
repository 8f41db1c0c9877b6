// Package user is what somebody does with a fleet from outside: write objects
// on its hub and in its members, send requests to its edges, read its admin
// listeners, and wait. What an answer is worth, the caller judges.
package user
