//go:build race

package hub

const raced = true
