package ingest

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

var (
	// badParts never occur in a path that a client sends in normal form.
	badParts    = []string{"//", "/./", "/../", "%2f", "%2F"}
	badSuffixes = []string{"/..", "/."}
)

// patternCharacters hint that somebody meant a pattern, as other controllers
// take for pathType ImplementationSpecific.
const patternCharacters = `*()[]^$|\`

// match reads a path of a rule. The error says what to do.
func match(kind *networkingv1.PathType, path string) (model.Match, error) {
	if kind == nil {
		return model.Match{}, fmt.Errorf("pathType is missing: set Exact or Prefix")
	}
	if path == "" && *kind == networkingv1.PathTypeImplementationSpecific {
		path = "/"
	}
	if err := absolute(path); err != nil {
		return model.Match{}, err
	}
	switch *kind {
	case networkingv1.PathTypeExact:
		return model.Match{Kind: model.PathExact, Path: path}, nil
	case networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific:
		return model.Match{Kind: model.PathPrefix, Path: prefix(path)}, nil
	}
	return model.Match{}, fmt.Errorf("pathType %q is not known: set Exact or Prefix", *kind)
}

// prefix is a path without "/" at its end.
func prefix(path string) string {
	if p := strings.TrimRight(path, "/"); p != "" {
		return p
	}
	return "/"
}

func absolute(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("path %q must begin with /", path)
	}
	for _, r := range path {
		if r <= ' ' || r >= 0x7f || r == '?' || r == '#' {
			return fmt.Errorf("path %q can't match any request: write %q percent-encoded", path, r)
		}
	}
	for _, bad := range badParts {
		if strings.Contains(path, bad) {
			return fmt.Errorf("path %q must not contain %q", path, bad)
		}
	}
	for _, bad := range badSuffixes {
		if strings.HasSuffix(path, bad) {
			return fmt.Errorf("path %q must not end with %q", path, bad)
		}
	}
	return normal(path)
}

// normal refuses what proxies make something else of, so that no request has it.
func normal(path string) error {
	if !model.Escaped(path) {
		return fmt.Errorf("path %q must have two hexadecimal digits after each %%: write %%25 for the character itself", path)
	}
	is, ok := model.NormalPath(path)
	switch {
	case !ok:
		return fmt.Errorf("path %q can't match any request: proxies refuse %%00", path)
	case is != path:
		return fmt.Errorf("path %q can't match any request: proxies make %s of it; write that", path, is)
	}
	return nil
}
