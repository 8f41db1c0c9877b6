package leaf

import (
	"cmp"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// The spec of an Ingress is cut as JSON has it, so that what is left keeps fields that
// nobody here knows.

// cut leaves of an Ingress what its root has, and reports whether that is anything. A
// default backend that serves only the root's own hosts becomes a path of these: in a
// member it would be for all hosts.
func (p *part) cut(spec map[string]any) bool {
	own := spec["defaultBackend"]
	if !p.fallback {
		delete(spec, "defaultBackend")
	}
	var rules []any
	had, kept := map[string]bool{}, map[string]bool{}
	for i, rule := range ingest.MapsIn(spec, "rules") {
		field, host := model.Field("spec.rules").Index(i), ingest.TextIn(rule, "host")
		http, _ := rule["http"].(map[string]any)
		paths := ingest.MapsIn(http, "paths")
		bare := len(paths) == 0
		had[host] = true
		if bare && !p.won[field] {
			continue
		}
		left := p.paths(field+".http.paths", paths)
		if own != nil && !p.fallback && p.rows[model.Host(host)] && !kept[host] {
			left = withRest(left, own)
		}
		if len(left) > 0 {
			rule["http"] = with(http, "paths", left)
		}
		if bare || len(left) > 0 {
			rules = append(rules, rule)
			kept[host] = true
		}
	}
	put(spec, "rules", rules)
	p.cutTLS(spec, func(h string) bool { return had[h] && !kept[h] })
	return len(rules) > 0 || spec["defaultBackend"] != nil
}

// put has a list be a field, which is not there if it is empty.
func put(of map[string]any, name string, list []any) {
	of[name] = list
	if len(list) == 0 {
		delete(of, name)
	}
}

// with is a copy with another value of a field.
func with(of map[string]any, name string, v any) map[string]any {
	out := maps.Clone(of)
	if out == nil {
		out = map[string]any{}
	}
	out[name] = v
	return out
}

// paths are those of a rule that the root has.
func (p *part) paths(field model.Field, all []map[string]any) []any {
	var out []any
	for i := range all {
		if p.won[field.Index(i)] {
			out = append(out, all[i])
		}
	}
	return out
}

// withRest has a backend serve what no path of a rule matches.
func withRest(paths []any, rest any) []any {
	const prefix = string(networkingv1.PathTypePrefix)
	if slices.ContainsFunc(paths, func(p any) bool {
		of, _ := p.(map[string]any)
		return ingest.TextIn(of, "pathType") == prefix && cmp.Or(ingest.TextIn(of, "path"), "/") == "/"
	}) {
		return paths
	}
	return append(paths, map[string]any{"path": "/", "pathType": prefix, "backend": rest})
}

// cutTLS leaves out the names of hosts of which the root has nothing.
func (p *part) cutTLS(spec map[string]any, lost func(string) bool) {
	var out []any
	for _, t := range ingest.MapsIn(spec, "tls") {
		all, _ := t["hosts"].([]any)
		hosts := slices.DeleteFunc(slices.Clone(all), func(h any) bool {
			name, _ := h.(string)
			return lost(name)
		})
		if len(hosts) == 0 && len(all) > 0 {
			continue
		}
		if len(all) > 0 {
			t = with(t, "hosts", hosts)
		}
		out = append(out, t)
	}
	put(spec, "tls", out)
}
