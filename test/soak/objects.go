package main

import (
	"fmt"
	"strings"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	namespace = "soak"
	class     = "spillway" // the lab's IngressClass
	config    = "default"  // and its GatewayClassConfig
)

// workloads run in every member, each a Deployment and a Service of its name.
var workloads = []string{"web", "api"}

// replicas of each workload in each member, at first.
const replicas = 2

type object = user.Object

var named = user.Named

func namespaceObject() object { return named("v1", "Namespace", "", namespace, nil) }

// workloadObjects are what a user writes in a member.
func workloadObjects(name string) []object {
	labels := object{"app": name}
	return []object{
		named("v1", "Service", namespace, name, object{"spec": object{
			"selector": labels, "ports": []any{
				object{"name": "http", "port": 80, "targetPort": "http"}, object{"name": "https", "port": 443, "targetPort": 8443}, object{"name": "lines", "port": 9000, "targetPort": 9000},
			},
		}}),
		named("apps/v1", "Deployment", namespace, name, object{"spec": object{
			"replicas": replicas, "selector": object{"matchLabels": labels},
			"strategy": object{"rollingUpdate": object{"maxUnavailable": 0, "maxSurge": 1}},
			"template": object{"metadata": object{"labels": labels}, "spec": object{
				"terminationGracePeriodSeconds": 15,
				"containers": []any{object{
					"name": "echo", "image": "spillway.dev/echo", "ports": []any{object{"name": "http", "containerPort": 8080}},
					"readinessProbe": object{"httpGet": object{"path": "/healthz", "port": "http"}, "periodSeconds": 1},
				}},
			}},
		}}),
	}
}

// routes are the paths of a host: "/" for every path, others for themselves
// alone. A value is the name of a Service, or several with and in between.
type routes map[string]string

// of are the answers for a path.
func (r routes) of(path string) (out []string) {
	to, ok := r[path]
	if !ok {
		to = r["/"]
	}
	for _, s := range strings.Split(to, and) {
		out = append(out, served(s))
	}
	return out
}

// ingressObject is an Ingress with one host; with a secret, on HTTPS too.
func ingressObject(name, host, secret string, paths routes) object {
	var list []any
	for _, path := range []string{"/", "/x"} {
		if s, ok := paths[path]; ok {
			kind := map[bool]string{true: "Prefix", false: "Exact"}[path == "/"]
			list = append(list, object{"path": path, "pathType": kind, "backend": serviceBackend(s)})
		}
	}
	spec := object{"ingressClassName": class, "rules": []any{object{"host": host, "http": object{"paths": list}}}}
	if secret != "" {
		spec["tls"] = []any{object{"hosts": []any{host}, "secretName": secret}}
	}
	return named("networking.k8s.io/v1", "Ingress", namespace, name, object{"spec": spec})
}

func serviceBackend(name string) object {
	return object{"service": object{"name": name, "port": object{"name": "http"}}}
}

func secretObject(name string, p pair) object {
	return named("v1", "Secret", namespace, name, object{"type": "kubernetes.io/tls", "data": object{"tls.crt": []byte(p.cert), "tls.key": []byte(p.key)}})
}

// classObjects are an IngressClass and its GatewayClassConfig.
func classObjects(name string, spec object) []object {
	return []object{
		named(user.Ours.String(), "GatewayClassConfig", "", name, object{"spec": spec}),
		user.IngressClass(name, name),
	}
}

func hostName(kind string, i int) string { return fmt.Sprintf("%s-%d.example", kind, i) }
