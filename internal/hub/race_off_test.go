//go:build !race

package hub

// raced: the race detector watches. Tests that look at the fake hub while writers
// are at work in their bubble are not for it.
const raced = false
