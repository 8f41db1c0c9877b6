package model

// Load is how many requests a second a backend gets, of all edges together, as
// far as they say so: a power of two, near enough that the row seldom changes.
// It decides who goes first where not all can, and nothing else.
type Load struct{ Requests float64 }

// Equal reports whether both are the same.
func (a Load) Equal(b Load) bool { return a == b }
