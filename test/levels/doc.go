// Package levels holds the test that the layers of docs/design/architecture.md hold.
package levels
