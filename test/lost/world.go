package main

import (
	"bytes"
	"errors"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/deploy/rbac"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	namespace = "lost"
	workload  = "web"      // Deployment of each member, behind all of its Services
	lost      = "m-01"     // nearest to edge eu
	reader    = "spillway" // whom the API of the lost member knows `serve` as
	binding   = "spillway" // ClusterRoleBinding that lets it read
	domain    = ".example" // of the lab's DNSZone
)

// host is one that an Ingress of its name leads to a Service.
type host struct {
	name    string
	service string
	in      func(member int) bool // who has the Service; the lost one is 0
}

var hosts = []host{
	{"alone", "alone", func(i int) bool { return i == 0 }},
	{"shared", "shared", func(int) bool { return true }},
	{"others", "others", func(i int) bool { return i > 0 }},
}

func (h host) url() string { return "http://" + h.name + domain + "/" }

type object = user.Object

var named = user.Named

func namespaceObject() object { return named("v1", "Namespace", "", namespace, nil) }

func deploymentObject(replicas int) object {
	labels := object{"app": workload}
	return named("apps/v1", "Deployment", namespace, workload, object{"spec": object{
		"replicas": replicas, "selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": object{
			"terminationGracePeriodSeconds": 15,
			"containers": []any{object{
				"name": "echo", "image": "spillway.dev/echo", "ports": []any{object{"name": "http", "containerPort": 8080}},
				"readinessProbe": object{"httpGet": object{"path": "/healthz", "port": "http"}, "periodSeconds": 1},
			}},
		}},
	}})
}

func serviceObject(name string) object {
	return named("v1", "Service", namespace, name, object{"spec": object{
		"selector": object{"app": workload}, "ports": []any{object{"name": "http", "port": 80, "targetPort": "http"}},
	}})
}

func ingressObject(h host, path string) object {
	return named("networking.k8s.io/v1", "Ingress", namespace, h.name, object{"spec": object{
		"ingressClassName": "spillway",
		"rules": []any{object{"host": h.name + domain, "http": object{"paths": []any{object{
			"path": path, "pathType": "Prefix",
			"backend": object{"service": object{"name": h.service, "port": object{"name": "http"}}},
		}}}}},
	}})
}

// roleObject is what `serve` may do in a member, as users apply it.
func roleObject() (object, error) {
	for doc := range bytes.SplitSeq(rbac.Member, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(doc, &o); err != nil || o["kind"] == "ClusterRole" {
			return o, err
		}
	}
	return nil, errors.New("deploy/rbac/member.yaml has no ClusterRole")
}

// bindingObject lets `serve` do that.
func bindingObject() object {
	return named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", binding, object{
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "spillway-member"},
		"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reader}},
	})
}
