package fleettest

import (
	"fmt"
	"strconv"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

var overs = map[string]model.Over{
	"both": model.Both, "http": model.OnlyHTTP, "https": model.OnlyHTTPS, "moved": model.MovedToHTTPS, "passed": model.Passed, "passedmoved": model.PassedAndMoved,
}

// openShift reads a Route of OpenShift. What it holds in itself is rows of their own, as a
// shell writes them.
func openShift(w *World, words []string) (string, error) {
	a := Parse(words, "class", "age", "over", "tls", "ca", "reencrypt", "refused", "published", "subdomain", "full")
	name := a.service(a.Word(0), "default")
	id := model.Object{Kind: model.OpenShiftRoute, Namespace: name.Namespace(), Name: name.Name()}
	host, path, _ := strings.Cut(a.Word(1), "/")
	root := model.Root{Created: a.Number("age", w.age(id.String())), Classes: model.Classes(a.Options["class"]), Published: model.TextsOf(a.List("published")), Ours: a.Has("published")}
	root.Admit = &model.AdmitSpec{Host: host, Subdomain: a.Has("subdomain")}
	over, ok := overs[a.Options["over"]]
	if !ok {
		over = model.OnlyHTTP
	}
	rule := model.Rule{Field: "spec.host", Matches: []model.Match{{Kind: model.PathPrefix, Path: "/" + path}}, Action: model.Action{Filters: model.Filters{}.By(over)}}
	for one := range strings.SplitSeq(a.Word(2), "+") {
		to, weight, weighted := strings.Cut(one, "*")
		b := model.WeightedBackend{Backend: a.routed(to, id, over, a.Has("reencrypt") || a.Has("ca")), Weight: 100}
		if weighted {
			n, err := strconv.ParseUint(weight, 10, 32)
			if err != nil {
				a.Fail("%w", err)
			}
			b.Weight = uint32(n)
		}
		rule.Backends = append(rule.Backends, b)
	}
	rules := map[model.Host]model.Rules{model.Host(host): {rule}}
	if reason, refused := a.Options["refused"]; refused {
		root.Admit.Refused = model.Refusal{Reason: reason, Message: "as it says"}
		rules[model.Host(host)] = nil
	}
	secret := model.InlineCertificate(id)
	if text, ok := a.Options["tls"]; ok {
		t := model.TLS{Hosts: []model.Host{model.Host(host).TLSName()}, Secret: secret, Field: "spec.tls.certificate"}
		if text != "self" {
			t.Secret, t.Field = model.SecretID{Namespace: name.Namespace(), Name: text}, "spec.tls.externalCertificate"
		}
		root.TLS = []model.TLS{t}
	}
	had := w.specs.ruled[id]
	w.specs.ruled[id] = []model.Host{model.Host(host)}
	w.Stage(func(tx *inc.Tx) {
		in := w.Program.In
		DeleteRoot(tx, in, id, had...)
		SetRoot(tx, in, id, root, rules)
		if a.Has("full") {
			o := &routev1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "uid"}, Spec: routev1.RouteSpec{Host: host}}
			if path != "" {
				o.Spec.Path = "/" + path
			}
			o.Spec.To.Kind, o.Spec.To.Name = "Service", rule.Backends[0].Backend.Key().Service.Name()
			if text, ok := a.Options["tls"]; ok && text != "self" {
				o.Spec.TLS = &routev1.TLSConfig{Termination: routev1.TLSTerminationEdge, ExternalCertificate: &routev1.LocalObjectReference{Name: text}}
			}
			_, m := ingest.OpenShiftManifest(o, nil)
			in.Manifests.Set(tx, id, m)
		}
		in.Certificates.Delete(tx, secret)
		in.Bundles.Delete(tx, id)
		if a.Options["tls"] == "self" {
			in.Certificates.Set(tx, secret, model.Certificate{Chain: []byte(id.String()), Names: []string{host}})
		}
		if pem, ok := a.Options["ca"]; ok {
			in.Bundles.Set(tx, id, model.Bundle{PEM: pem})
		}
	})
	return "", a.Err
}

// routed reads "SERVICE:PORT", where the port is a name, "pods" for the only one there
// is, or "podsNUMBER" for one of pods.
func (a *Args) routed(text string, route model.Object, over model.Over, reencrypt bool) model.Backend {
	k := a.backend(text, route.Namespace).Key()
	if number, pods := strings.CutPrefix(k.Port.Name, "pods"); pods {
		var n int32
		if number != "" {
			if _, err := fmt.Sscan(number, &n); err != nil {
				a.Fail("%q: %w", text, err)
			}
		}
		k.Port = model.PortRef{Number: n, Pods: true}
	}
	if over.Passes() {
		k.Port.For, k.Port.Pass = model.Connections, true
	}
	if reencrypt {
		k.Port.Route = route.Name
	}
	return k.Backend()
}
