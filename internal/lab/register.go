package lab

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// SystemNamespace is where the hub's objects that have a namespace are put.
const SystemNamespace = "spillway-system"

const (
	registerPatience = 30 * time.Second
	zoneDomain       = "example"
	secretKey        = "kubeconfig"
)

// registrar writes the objects of the hub.
var registrar = user.Author{Manager: "spillway-lab", Timeout: registerPatience, Warnings: true}

type object = user.Object

var (
	ours  = user.Ours
	named = user.Named
)

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
		member := object{
			"connection": object{"kubeconfigSecretRef": object{"name": secret, "key": secretKey}},
			"location":   location,
			"taints":     []any{}, // take traffic at once
		}
		if own := s.leafAddresses(m); own != nil {
			member["leafAddresses"] = own
		}
		out = append(out, named(ours.String(), "MemberCluster", "", m.Name, spec(member)))
	}
	for i, e := range s.Edges {
		out = append(out, named(ours.String(), "Edge", "", e.Name, spec(object{
			"locality":    object{"region": e.Region, "zone": e.Zone, "subZone": e.Place},
			"coordinates": object{"latitude": e.Latitude, "longitude": e.Longitude},
			"addresses":   []any{object{"value": s.loopback(edgeNet, i+1).String()}},
			"addressPool": addressPool(s.PoolOf(i), e.Pool-e.OnRequest),
			"identity":    object{"spiffeIDs": []any{fmt.Sprintf("spiffe://%s/edge/%s", TrustDomain, e.Name)}},
		})))
	}
	http, https := defaultHTTP, defaultHTTPS
	if len(s.Edges) > 0 {
		http, https = s.Edges[0].HTTPPort, s.Edges[0].HTTPSPort
	}
	if len(s.Edges) > 0 { // a class that no edge serves is a mistake
		class := user.IngressClass("spillway", "default")
		class["metadata"].(object)["annotations"] = object{"ingressclass.kubernetes.io/is-default-class": "true"}
		out = append(out, class)
	}
	return append(out,
		named(ours.String(), "GatewayClassConfig", "", "default", spec(object{
			"listeners": object{"http": http, "https": https},
			"zones":     []any{object{"namespace": SystemNamespace, "name": zoneDomain}},
		})),
		named(ours.String(), "DNSZone", SystemNamespace, zoneDomain, spec(object{
			"domain": zoneDomain, "provider": "embedded",
			"nameServers": []any{object{"host": "ns1." + zoneDomain, "addresses": []any{"127.0.0.1"}}},
		})),
	)
}

// addressPool are addresses of which only so many are given to who asks for none.
func addressPool(all []netip.Addr, auto int) []any {
	out := make([]any, len(all))
	for i, a := range all {
		o := object{"address": a.String()}
		if i >= auto {
			o["autoAssign"] = false
		}
		out[i] = o
	}
	return out
}

func spec(o object) object { return object{"spec": o} }

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
	return files.Replace(path, out.Bytes(), 0o600)
}

// applyObjects applies them on the hub, waiting for kinds that are being
// installed.
func applyObjects(ctx context.Context, kubeconfig string, objects []object) error {
	hub, err := registrar.Open("the hub", kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registerPatience)
	defer cancel()
	for _, o := range objects {
		if err := apply(ctx, hub, o); err != nil {
			return fmt.Errorf("register: %w", err)
		}
	}
	return nil
}

func apply(ctx context.Context, in *user.Cluster, o object) error {
	return eventually.Patience{Poll: pollEvery}.Await(ctx, in.Name+" to take an object", func(ctx context.Context) error {
		err := in.Apply(ctx, o)
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return eventually.Never(err)
		}
		return err
	})
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
