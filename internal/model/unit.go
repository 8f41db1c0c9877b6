package model

// All is the one key of a table or an index about everything.
type All struct{}

// Compare is always 0.
func (All) Compare(All) int { return 0 }

// String is "all".
func (All) String() string { return "all" }

// There is a row that says it all by being there.
type There struct{}

// Equal is always true.
func (There) Equal(There) bool { return true }
