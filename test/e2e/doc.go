// Package e2e runs the built binary as its users do. The whole of the demo is
// told by `spillway demo --check`; here is what goes wrong before anything runs.
package e2e
