package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Whole is what a leaf and its root have alike: its spec is as JSON has it, with all its
// fields, those too that came after this version of Spillway.
type Whole struct {
	Metadata Metadata       `json:"metadata"`
	Spec     map[string]any `json:"spec"`
}

// Text is the whole as JSON, the same for equal ones.
func (w Whole) Text() string {
	data, err := json.Marshal(w)
	if err != nil {
		panic("an object can't be written as JSON: " + err.Error())
	}
	return string(data)
}

// WholeOf is the inverse.
func WholeOf(text string) (Whole, error) {
	var w Whole
	err := exactly([]byte(text), &w)
	return w, err
}

// exactly reads JSON with its numbers as they are written.
func exactly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// SpecIn is the spec of an object, as its JSON has it. Where that is not known it is what
// our type has of it.
func SpecIn(text []byte, typed any) any {
	var o struct {
		Spec json.RawMessage `json:"spec"`
	}
	if len(text) == 0 || json.Unmarshal(text, &o) != nil || len(o.Spec) == 0 {
		return typed
	}
	return o.Spec
}

// ManifestOf is an object in full, given its spec.
func ManifestOf(kind string, o metav1.Object, spec any) (model.Object, model.Manifest) {
	return manifestOf(kind, o, mapOf(spec))
}

// mapOf is a spec as JSON has it, without what is null: that is not said.
func mapOf(spec any) map[string]any {
	out := map[string]any{}
	if data, err := json.Marshal(spec); err != nil || exactly(data, &out) != nil {
		panic(fmt.Sprintf("a spec can't be written as JSON: %v", err))
	}
	prune(out)
	return out
}

func manifestOf(kind string, o metav1.Object, spec map[string]any) (model.Object, model.Manifest) {
	w := Whole{Metadata: metadataOf(o), Spec: spec}
	out := model.Manifest{UID: string(o.GetUID()), Body: w.Text()}
	out.Adopts, out.Orphans = consents(o)
	out.Rollout = rolloutWord(o)
	return object(kind, o), out
}

// prune takes out what is null.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, e any) bool { return e == nil })
		for _, e := range v {
			prune(e)
		}
	case []any:
		for _, e := range v {
			prune(e)
		}
	}
}

// GatewayManifest is a Gateway in full.
func GatewayManifest(o *gatewayv1.Gateway, text []byte) (model.Object, model.Manifest) {
	k, m := ManifestOf(model.GatewayKind, o, SpecIn(text, o.Spec))
	m.Published = gatewayAddresses(o.Status.Addresses)
	return k, m
}

func gatewayAddresses(list []gatewayv1.GatewayStatusAddress) model.Texts {
	var out []string
	for _, a := range list {
		if a.Value != "" {
			out = append(out, strings.ToLower(a.Value))
		}
	}
	slices.Sort(out)
	return model.TextsOf(slices.Compact(out))
}

// RouteManifest is a route of the Gateway API in full.
func RouteManifest(kind string, o metav1.Object, text []byte) (model.Object, model.Manifest) {
	switch o := o.(type) {
	case *gatewayv1.HTTPRoute:
		return ManifestOf(kind, o, SpecIn(text, o.Spec))
	case *gatewayv1.GRPCRoute:
		return ManifestOf(kind, o, SpecIn(text, o.Spec))
	case *gatewayv1.TLSRoute:
		return ManifestOf(kind, o, SpecIn(text, o.Spec))
	case *gatewayv1.TCPRoute:
		return ManifestOf(kind, o, SpecIn(text, o.Spec))
	case *gatewayv1.UDPRoute:
		return ManifestOf(kind, o, SpecIn(text, o.Spec))
	}
	panic(fmt.Sprintf("%T is no route of the Gateway API", o))
}

// OpenShiftManifest is a Route of OpenShift in full, but for the key that it has in
// itself, and the certificates that are of no use without: keys do not leave the hub.
func OpenShiftManifest(o *routev1.Route, text []byte) (model.Object, model.Manifest) {
	spec := mapOf(SpecIn(text, o.Spec))
	if t := mapIn(spec, "tls"); TextIn(t, "key") != "" {
		for _, name := range []string{"key", "certificate", "caCertificate"} {
			delete(t, name)
		}
	}
	return manifestOf(model.OpenShiftRoute, o, spec)
}

// CutRules leaves out of a route the matches of which keep does not know, and rules
// without any that is left; false: no rule is. Rules of kinds that have no matches are
// for everything, and so is one that names none.
func CutRules(kind string, spec map[string]any, keep func(model.Match) bool) bool {
	rules, _ := spec["rules"].([]any)
	var out []any
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		matches, _ := rule["matches"].([]any)
		if len(matches) == 0 {
			if keep(model.Everything) {
				out = append(out, r)
			}
			continue
		}
		var left []any
		for _, m := range matches {
			if match, ok := matchOf(kind, m); ok && keep(match) {
				left = append(left, m)
			}
		}
		if len(left) > 0 {
			rule["matches"] = left
			out = append(out, rule)
		}
	}
	spec["rules"] = out
	return len(out) > 0
}

// matchOf reads a match of a kind of routes, as JSON has it; false: it has another shape.
func matchOf(kind string, m any) (model.Match, bool) {
	data, err := json.Marshal(m)
	if err != nil {
		return model.Match{}, false
	}
	if kind == "GRPCRoute" {
		return matchIn(data, grpcMatch)
	}
	return matchIn(data, httpMatch)
}

func matchIn[M any](data []byte, read func(*M) (model.Match, error)) (model.Match, bool) {
	var of M
	if json.Unmarshal(data, &of) != nil {
		return model.Match{}, false
	}
	m, err := read(&of)
	if err != nil {
		m = opaque(of)
	}
	return m, true
}

// CutHosts leaves of a route's host names those that keep knows.
func CutHosts(spec map[string]any, keep func(model.Host) bool) {
	names, _ := spec["hostnames"].([]any)
	if len(names) == 0 {
		return
	}
	spec["hostnames"] = slices.DeleteFunc(names, func(n any) bool {
		name, _ := n.(string)
		h, err := deepHost(name)
		return err != nil || !keep(h)
	})
}

// CutParents leaves of a route's references to parents those that keep knows.
func CutParents(spec map[string]any, keep func(model.Parent) bool) {
	refs, _ := spec["parentRefs"].([]any)
	spec["parentRefs"] = slices.DeleteFunc(refs, func(ref any) bool {
		p, err := parentOf(ref)
		return err != nil || !keep(p)
	})
}

func parentOf(ref any) (model.Parent, error) {
	var out gatewayv1.ParentReference
	data, err := json.Marshal(ref)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return Parent(out), err
}

// NameSecrets gives the Secrets other names that a Gateway, or what has listeners as one,
// names for TLS, or a Route of OpenShift. The namespace that name is told is empty where
// it is that of the object.
func NameSecrets(spec map[string]any, name func(namespace, name string) string) {
	for _, l := range MapsIn(spec, "listeners") {
		for _, ref := range MapsIn(mapIn(l, "tls"), "certificateRefs") {
			nameSecret(ref, name)
		}
	}
	tls := mapIn(spec, "tls")
	nameSecret(mapIn(mapIn(tls, "backend"), "clientCertificateRef"), name)
	nameSecret(mapIn(tls, "externalCertificate"), name)
}

func nameSecret(ref map[string]any, name func(namespace, name string) string) {
	kind := TextIn(ref, "kind")
	if TextIn(ref, "group") != "" || kind != "" && kind != "Secret" || TextIn(ref, "name") == "" {
		return
	}
	ref["name"] = name(TextIn(ref, "namespace"), TextIn(ref, "name"))
}

// LetSecret has a ReferenceGrant let others refer to one more Secret.
func LetSecret(spec map[string]any, name string) {
	to, _ := spec["to"].([]any)
	spec["to"] = append(to, map[string]any{"group": "", "kind": "Secret", "name": name})
}

// free are fields whose keys are for users to name.
var free = map[string]bool{"matchLabels": true, "labels": true, "annotations": true, "options": true}

// Elsewhere changes the namespaces of references, where a spec names them.
func Elsewhere(spec map[string]any, namespace func(string) string) {
	for key, v := range spec {
		if name, is := v.(string); is && key == "namespace" {
			spec[key] = namespace(name)
		} else if !free[key] {
			elsewhere(v, namespace)
		}
	}
}

func elsewhere(v any, namespace func(string) string) {
	switch v := v.(type) {
	case map[string]any:
		Elsewhere(v, namespace)
	case []any:
		for _, e := range v {
			elsewhere(e, namespace)
		}
	}
}
