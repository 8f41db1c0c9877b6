package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/pki"
)

// liar is the API server of a member that attackers have. The hub knows it as
// any other: with a kubeconfig, and with the range of its pods.
type liar struct {
	hub    *user.Cluster
	server *http.Server
	began  time.Time
	sent   atomic.Int64 // answers begun
	cut    atomic.Int64 // of them, ended by the control plane before their time
}

const (
	liarName  = "hostile"
	liarRange = "10.66.0.0/16"
	modeLasts = 5 * time.Second
	chunk     = 64 << 10
	chunkRest = 10 * time.Millisecond // 6 MB a second at most, of each answer
	huge      = 200 << 20
)

// mode is a way to answer a request. An error says that nobody listens.
type mode struct {
	what   string
	answer func(http.ResponseWriter, *http.Request) error
}

// modes follow one another.
var modes = []mode{
	{"endpoints of others", lies},
	{"endpoints of others", lies},
	{"endpoints of others", lies}, // long enough to be believed
	{"a list that never ends", func(w http.ResponseWriter, r *http.Request) error { return endless(w, r, -1) }},
	{"a list of 200 MB", func(w http.ResponseWriter, r *http.Request) error { return endless(w, r, huge) }},
	{"watches that end at once", endsAtOnce},
	{"garbage", garbage},
	{"410", func(w http.ResponseWriter, _ *http.Request) error { return refusal(w, http.StatusGone, "Expired") }},
	{"a byte each tenth of a second", drip},
	{"429 with a long name", func(w http.ResponseWriter, _ *http.Request) error {
		return refusal(w, http.StatusTooManyRequests, strings.Repeat("x", 100_000))
	}},
	{"pages that never end", pages},
}

// newLiar starts the server and has the hub follow it.
func newLiar(ctx context.Context, l *lab.Lab) (*liar, error) {
	hub, err := user.Author{Manager: liarName, Timeout: patience}.Open("the hub", l.HubKubeconfig())
	if err != nil {
		return nil, err
	}
	template := pki.Authority(liarName, 24*time.Hour)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	pair, err := pki.Self(template)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &liar{hub: hub, began: time.Now()}
	m.server = &http.Server{Handler: m, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}, ReadHeaderTimeout: patience}
	go func() { _ = m.server.ServeTLS(listener, "", "") }()
	for _, o := range liarObjects("https://"+listener.Addr().String(), pair.CertPEM()) {
		if err := hub.Apply(ctx, o); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func liarObjects(url string, ca []byte) []object {
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: it, user: {token: none}}]
`, url, base64.StdEncoding.EncodeToString(ca))
	return []object{
		named("v1", "Secret", lab.SystemNamespace, "member-"+liarName, object{"type": "Opaque", "stringData": object{"kubeconfig": kubeconfig}}),
		named(user.Ours.String(), "MemberCluster", "", liarName, object{"spec": object{
			"connection": object{"kubeconfigSecretRef": object{"name": "member-" + liarName, "key": "kubeconfig"}},
			"location":   object{"provider": "lab", "region": "eu"},
			"podRanges":  []any{liarRange}, "taints": []any{},
		}}),
	}
}

// lie answers until ctx ends.
func (m *liar) lie(ctx context.Context) deeds {
	<-ctx.Done()
	return deeds{Done: m.sent.Load(), Refused: m.cut.Load()}
}

// leave takes the member from the hub, then ends the server.
func (m *liar) leave(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return errors.Join(
		m.hub.Delete(ctx, "MemberCluster", "", liarName),
		m.hub.Delete(ctx, "Secret", lab.SystemNamespace, "member-"+liarName),
		m.server.Close(),
	)
}

func (m *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.sent.Add(1)
	now := modes[int(time.Since(m.began)/modeLasts)%len(modes)]
	if err := now.answer(w, r); err != nil {
		m.cut.Add(1)
	}
}

// asked are the kind and version of what a request is for.
func asked(r *http.Request) (kind, version string) {
	switch {
	case strings.Contains(r.URL.Path, "endpointslices"):
		return "EndpointSlice", "discovery.k8s.io/v1"
	case strings.Contains(r.URL.Path, "serviceexports"):
		return "ServiceExport", "multicluster.x-k8s.io/v1beta1"
	case strings.Contains(r.URL.Path, "namespaces"):
		return "Namespace", "v1"
	}
	return "Service", "v1"
}

// write sends text and lets it go out.
func write(w http.ResponseWriter, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

func ok(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
}

func head(r *http.Request, more string) string {
	kind, version := asked(r)
	return fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"%s},"items":[`, kind, version, more)
}

// endless is a list of so many bytes, or without an end; as a watch, events.
func endless(w http.ResponseWriter, r *http.Request, size int) error {
	ok(w)
	kind, version := asked(r)
	watches := r.URL.Query().Get("watch") != ""
	one := func(i int) string {
		o := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"name":"o-%d","namespace":"big","resourceVersion":"%d","annotations":{"x":"%s"}}}`,
			kind, version, i, i+1, strings.Repeat("y", 1000))
		if watches {
			return fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", o)
		}
		return o + ","
	}
	if !watches {
		if err := write(w, head(r, "")); err != nil {
			return err
		}
	}
	var text strings.Builder
	for i := 0; text.Len() < chunk; i++ {
		text.WriteString(one(i))
	}
	for sent := 0; size < 0 || sent < size; sent += text.Len() { // the same objects again and again: the attackers' CPU is short
		if err := write(w, text.String()); err != nil {
			return err
		}
		user.Rest(r.Context(), chunkRest)
	}
	if watches {
		return nil
	}
	return write(w, strings.TrimSuffix(one(0), ",")+"]}")
}

func garbage(w http.ResponseWriter, r *http.Request) error {
	ok(w)
	text := make([]byte, chunk)
	for range 64 {
		_, _ = rand.Read(text)
		if err := write(w, string(text)); err != nil {
			return err
		}
		user.Rest(r.Context(), chunkRest)
	}
	return nil
}

func drip(w http.ResponseWriter, r *http.Request) error {
	ok(w)
	for _, c := range head(r, "") + strings.Repeat(" ", 10_000) {
		if err := write(w, string(c)); err != nil {
			return err
		}
		user.Rest(r.Context(), 100*time.Millisecond)
		if r.Context().Err() != nil {
			return r.Context().Err()
		}
	}
	return nil
}

func endsAtOnce(w http.ResponseWriter, r *http.Request) error {
	ok(w)
	if r.URL.Query().Get("watch") != "" {
		return nil
	}
	return write(w, head(r, "")+"]}")
}

func refusal(w http.ResponseWriter, code int, reason string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	return write(w, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, reason, code))
}

// pages is a list that always has one more.
func pages(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("watch") != "" {
		return refusal(w, http.StatusBadRequest, "BadRequest")
	}
	ok(w)
	return write(w, head(r, fmt.Sprintf(`,"continue":"%d"`, time.Now().UnixNano()))+"]}")
}

// Endpoints of others: of an edge, this machine, the control plane, pods of
// other members, another attacker's neighbour and nobody.
var stolenAddresses = []string{"127.0.10.1", "127.0.10.2", "127.0.0.1", "10.1.0.1", "10.2.0.2", "10.3.0.3", "169.254.169.254", "224.0.0.1", "0.0.0.0", "10.67.0.1"}

// lies are services that others have, under endpoints that are not its own,
// with an application protocol and ports that nobody else says.
func lies(w http.ResponseWriter, r *http.Request) error {
	kind, version := asked(r)
	var items []any
	for _, s := range []struct{ namespace, name string }{{"soak", "web"}, {"soak", "api"}, {watched, watched}, {liarName, liarName}} {
		items = append(items, lieAbout(kind, version, s.namespace, s.name)...)
	}
	ok(w)
	if r.URL.Query().Get("watch") == "" {
		text, err := json.Marshal(items)
		if err != nil {
			return err
		}
		return write(w, head(r, "")+strings.Trim(string(text), "[]")+"]}")
	}
	events := make([]any, 0, len(items)+1)
	for _, o := range items {
		events = append(events, object{"type": "ADDED", "object": o})
	}
	end := object{"kind": kind, "apiVersion": version, "metadata": object{"resourceVersion": "2", "annotations": object{"k8s.io/initial-events-end": "true"}}}
	for _, e := range append(events, object{"type": "BOOKMARK", "object": end}) {
		text, err := json.Marshal(e)
		if err == nil {
			err = write(w, string(text)+"\n")
		}
		if err != nil {
			return err
		}
	}
	user.Rest(r.Context(), modeLasts)
	return nil
}

func lieAbout(kind, version, namespace, name string) []any {
	o := named(version, kind, namespace, name, nil)
	switch kind {
	case "Service":
		o["spec"] = object{"ports": []any{object{"name": "http", "port": 81, "targetPort": 9, "appProtocol": "kubernetes.io/h2c", "protocol": "TCP"}}}
		o["metadata"].(object)["resourceVersion"] = "2"
	case "EndpointSlice":
		var all []any
		for _, a := range stolenAddresses {
			all = append(all, object{"addresses": []any{a}, "conditions": object{"ready": true}})
		}
		o["metadata"] = object{"name": name + "-1", "namespace": namespace, "resourceVersion": "2", "labels": object{"kubernetes.io/service-name": name}}
		o["addressType"], o["endpoints"] = "IPv4", all
		o["ports"] = []any{object{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}}
	case "ServiceExport": // older than all others
		o["metadata"].(object)["resourceVersion"], o["metadata"].(object)["creationTimestamp"] = "2", "1970-01-02T00:00:00Z"
	default:
		return nil
	}
	return []any{o}
}
