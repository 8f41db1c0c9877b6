package inc

import (
	"fmt"
	"slices"
)

// Val is a value of a type that can be compared as the row of a table.
type Val[T comparable] struct{ V T }

// ValOf is a row that holds v.
func ValOf[T comparable](v T) Val[T] { return Val[T]{v} }

// Equal reports whether both hold the same.
func (a Val[T]) Equal(b Val[T]) bool { return a == b }

// String is that of the value.
func (a Val[T]) String() string { return fmt.Sprint(a.V) }

// List is a list of values that can be compared as the row of a table.
type List[T comparable] []T

// Equal reports whether both hold the same, in the same order.
func (a List[T]) Equal(b List[T]) bool { return slices.Equal(a, b) }
