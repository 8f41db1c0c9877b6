package levels

import (
	"slices"
	"strings"
)

const module = "github.com/spillway-dev/spillway/"

// pure packages do no I/O, start no goroutine, read no clock and log nothing.
var pure = []string{
	"internal/inc", "internal/model", "internal/ingest", "internal/steer", "internal/fleet", "internal/leaf", "internal/envoy", "internal/kong", "internal/zone",
}

// IsPure reports whether a package, of this import path, is one of these, or below one. What
// helps tests is not.
func IsPure(path string) bool {
	return !strings.HasSuffix(path, "test") && slices.ContainsFunc(pure, func(n string) bool { return below(path, n) })
}

// below reports whether a package is the one of this name, or below it.
func below(path, name string) bool {
	rest := strings.TrimPrefix(path, module)
	return rest == name || strings.HasPrefix(rest, name+"/")
}
