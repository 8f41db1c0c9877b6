package apiserver

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What `kubectl get -o wide` shows of an object with a full status.
func TestColumns(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	for _, c := range []struct{ plural, object, want string }{
		{"memberclusters", `
apiVersion: spillway.dev/v1alpha1
kind: MemberCluster
metadata: {name: columns}
spec:
  connection: {kubeconfigSecretRef: {name: a}}
  location: {region: eu, zone: eu-a}
status:
  endpoints: 12
  conditions:
  - {type: Connected, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Healthy, status: Unknown, reason: NoEvidence, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, "Name=columns Region=eu Zone=eu-a Connected=True Healthy=Unknown Endpoints=12 Drain=false Taint=spillway.dev/joining"},
		{"edges", `
apiVersion: spillway.dev/v1alpha1
kind: Edge
metadata: {name: columns}
spec:
  locality: {region: eu, zone: eu-a}
  addresses: [{value: 192.0.2.1}, {value: 192.0.2.2}]
  drain: true
status:
  connectedProxies: 3
  conditions:
  - {type: Connected, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, "Name=columns Region=eu Zone=eu-a Address=192.0.2.1 Proxies=3 Connected=True Drain=true"},
		{"gatewayclassconfigs", `
apiVersion: spillway.dev/v1alpha1
kind: GatewayClassConfig
metadata: {name: columns}
spec: {listeners: {http: 8080}}
status:
  conditions:
  - {type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, "Name=columns Data plane=Envoy HTTP=8080 HTTPS=443 Accepted=True"},
		{"placements", `
apiVersion: spillway.dev/v1alpha1
kind: Placement
metadata: {name: columns, namespace: default}
spec: {targetRefs: [{group: networking.k8s.io, kind: Ingress, name: web}]}
status:
  chosen: 2
  total: 3
  conditions:
  - {type: Accepted, status: "True", reason: Accepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Placed, status: "False", reason: NoMembers, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: RolledOut, status: "False", reason: InWave, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, "Name=columns Kind=Ingress Target=web Chosen=2 Members=3 Accepted=True Placed=False RolledOut=InWave"},
		{"dnszones", `
apiVersion: spillway.dev/v1alpha1
kind: DNSZone
metadata: {name: columns}
spec: {domain: shop.example, nameServers: [{host: ns.provider.example}]}
status:
  conditions:
  - {type: Accepted, status: "False", reason: Conflict, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
`, "Name=columns Domain=shop.example Provider=embedded TTL=5 Accepted=False"},
	} {
		t.Run(c.plural, func(t *testing.T) {
			want := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.object), &want.Object); err != nil {
				t.Fatal(err)
			}
			objects := resource(t, s, want)
			made, err := objects.Create(t.Context(), want, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := made.Object["status"]; ok {
				t.Error("a create wrote the status")
			}
			want.SetResourceVersion(made.GetResourceVersion())
			made, err = objects.UpdateStatus(t.Context(), want, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := row(t, s, c.plural, made); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// row is obj as "Column=cell" for all columns but the age.
func row(t *testing.T, s *server, plural string, obj metav1.Object) string {
	t.Helper()
	path := "/apis/spillway.dev/v1alpha1/"
	if obj.GetNamespace() != "" {
		path += "namespaces/" + obj.GetNamespace() + "/"
	}
	b, err := s.client.Discovery().RESTClient().Get().AbsPath(path+plural, obj.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := yaml.Unmarshal(b, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	var cells []string
	for i, column := range table.ColumnDefinitions {
		if column.Name != "Age" {
			cells = append(cells, fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i]))
		}
	}
	return strings.Join(cells, " ")
}
