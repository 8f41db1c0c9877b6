package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// SystemNamespace is where the hub's objects that have a namespace are put.
const SystemNamespace = "spillway-system"

const (
	fieldManager     = "spillway-lab"
	registerPatience = 30 * time.Second
	zoneDomain       = "example"
	secretKey        = "kubeconfig"
)

type object = map[string]any

var ours = schema.GroupVersion{Group: "spillway.dev", Version: "v1alpha1"}

// resources of the kinds below; kinds of ours are cluster-wide but DNSZone.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"IngressClass":       {Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"},
	"MemberCluster":      ours.WithResource("memberclusters"),
	"Edge":               ours.WithResource("edges"),
	"GatewayClassConfig": ours.WithResource("gatewayclassconfigs"),
	"DNSZone":            ours.WithResource("dnszones"),
}

// hubObjects are the objects that tell the hub about the fleet. kubeconfigs
// holds the text of each member's.
func hubObjects(s Spec, kubeconfigs map[string]string) []object {
	out := []object{named("v1", "Namespace", "", SystemNamespace, nil)}
	for _, m := range s.Members {
		secret := "member-" + m.Name
		out = append(out, named("v1", "Secret", SystemNamespace, secret, object{"type": "Opaque", "stringData": object{secretKey: kubeconfigs[m.Name]}}))
		location := object{"provider": "lab", "region": m.Region, "coordinates": object{"latitude": m.Latitude, "longitude": m.Longitude}}
		if len(m.Zones) == 1 {
			location["zone"] = m.Zones[0]
		}
		out = append(out, named(ours.String(), "MemberCluster", "", m.Name, spec(object{
			"connection": object{"kubeconfigSecretRef": object{"name": secret, "key": secretKey}},
			"location":   location,
			"taints":     []any{}, // take traffic at once
		})))
	}
	for i, e := range s.Edges {
		out = append(out, named(ours.String(), "Edge", "", e.Name, spec(object{
			"locality":    object{"region": e.Region, "zone": e.Zone, "subZone": e.Place},
			"coordinates": object{"latitude": e.Latitude, "longitude": e.Longitude},
			"addresses":   []any{object{"value": s.loopback(edgeNet, i+1).String()}},
			"identity":    object{"spiffeIDs": []any{fmt.Sprintf("spiffe://%s/edge/%s", TrustDomain, e.Name)}},
		})))
	}
	http, https := defaultHTTP, defaultHTTPS
	if len(s.Edges) > 0 {
		http, https = s.Edges[0].HTTPPort, s.Edges[0].HTTPSPort
	}
	class := named("networking.k8s.io/v1", "IngressClass", "", "spillway", spec(object{
		"controller": "spillway.dev/ingress",
		"parameters": object{"apiGroup": ours.Group, "kind": "GatewayClassConfig", "name": "default", "scope": "Cluster"},
	}))
	class["metadata"].(object)["annotations"] = object{"ingressclass.kubernetes.io/is-default-class": "true"}
	return append(out,
		named(ours.String(), "GatewayClassConfig", "", "default", spec(object{
			"listeners": object{"http": http, "https": https},
			"zones":     []any{object{"namespace": SystemNamespace, "name": zoneDomain}},
		})),
		class,
		named(ours.String(), "DNSZone", SystemNamespace, zoneDomain, spec(object{
			"domain": zoneDomain, "provider": "embedded",
			"nameServers": []any{object{"host": "ns1." + zoneDomain, "addresses": []any{"127.0.0.1"}}},
		})),
	)
}

func spec(o object) object { return object{"spec": o} }

func named(apiVersion, kind, namespace, name string, rest object) object {
	meta := object{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	out := object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for k, v := range rest {
		out[k] = v
	}
	return out
}

// writeObjects leaves the objects as a file that `kubectl apply -f` takes.
func writeObjects(path string, objects []object) error {
	var out bytes.Buffer
	out.WriteString("# What `spillway lab up` applied on the hub.\n")
	for _, o := range objects {
		b, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(b)
	}
	return writeFile(path, out.Bytes(), 0o600)
}

// applyObjects applies them on the hub, waiting for kinds that are being
// installed.
func applyObjects(ctx context.Context, kubeconfig string, objects []object) error {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registerPatience)
	defer cancel()
	for _, o := range objects {
		if err := apply(ctx, client, &unstructured.Unstructured{Object: normal(o)}); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	var to dynamic.ResourceInterface = client.Resource(resources[o.GetKind()])
	if ns := o.GetNamespace(); ns != "" {
		to = client.Resource(resources[o.GetKind()]).Namespace(ns)
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		_, err = to.Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return wrap(o, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return wrap(o, err)
		}
	}
}

func wrap(o *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("register on the hub: %s %s: %w", o.GetKind(), o.GetName(), err)
}

// normal turns Go's int into the int64 that unstructured objects hold.
func normal(o object) object {
	out := object{}
	for k, v := range o {
		switch v := v.(type) {
		case object:
			out[k] = normal(v)
		case int:
			out[k] = int64(v)
		default:
			out[k] = v
		}
	}
	return out
}

// registerFleet tells the hub about the fleet.
func registerFleet(ctx context.Context, s Spec, direct string) error {
	texts := map[string]string{}
	for _, m := range s.Members {
		b, err := os.ReadFile(memberKubeconfig(s.Dir, m.Name))
		if err != nil {
			return err
		}
		texts[m.Name] = string(b)
	}
	objects := hubObjects(s, texts)
	if err := writeObjects(filepath.Join(s.Dir, "hub-objects.yaml"), objects); err != nil {
		return err
	}
	return applyObjects(ctx, direct, objects)
}
