package kubelet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/lab/echo"
)

// scope is what the fields of one pod refer to.
type scope struct {
	pod    *corev1.Pod
	node   Node
	member string
	addrs  []netip.Addr
	source source
}

// source reads Secrets and ConfigMaps of the pod's namespace. Absent ones are
// nil without error.
type source interface {
	secret(ctx context.Context, name string) (map[string][]byte, error)
	configMap(ctx context.Context, name string) (map[string][]byte, error)
}

// environment is a container's environment, in the order of its definition,
// after what every container gets.
func (s scope) environment(ctx context.Context, c *corev1.Container) ([]string, error) {
	env := &variables{value: map[string]string{}}
	for _, v := range [][2]string{
		{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, {"HOME", "/tmp"}, {"HOSTNAME", s.pod.Name},
		{echo.EnvPod, s.pod.Name}, {echo.EnvNamespace, s.pod.Namespace}, {echo.EnvNode, s.node.Name}, {echo.EnvMember, s.member}, {echo.EnvZone, s.node.Zone},
	} {
		env.set(v[0], v[1])
	}
	for _, from := range c.EnvFrom {
		data, err := s.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			env.set(from.Prefix+key, string(data[key]))
		}
	}
	for _, e := range c.Env {
		value, ok, err := expand(e.Value, env.value), true, error(nil)
		if e.ValueFrom != nil {
			value, ok, err = s.valueFrom(ctx, e.ValueFrom)
		}
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if ok {
			env.set(e.Name, value)
		}
	}
	return env.list(), nil
}

// variables keeps the order of first definition and the last value.
type variables struct {
	order []string
	value map[string]string
}

func (v *variables) set(name, value string) {
	if _, ok := v.value[name]; !ok {
		v.order = append(v.order, name)
	}
	v.value[name] = value
}

func (v *variables) list() []string {
	out := make([]string, 0, len(v.order))
	for _, n := range v.order {
		out = append(out, n+"="+v.value[n])
	}
	return out
}

// expand replaces $(NAME) where NAME is defined; $$ stands for one $.
func expand(text string, vars map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		if text[i+1] == '$' {
			out.WriteByte('$')
			i++
			continue
		}
		if end := strings.IndexByte(text[i:], ')'); text[i+1] == '(' && end > 0 {
			if value, ok := vars[text[i+2:i+end]]; ok {
				out.WriteString(value)
				i += end
				continue
			}
		}
		out.WriteByte('$')
	}
	return out.String()
}

func (s scope) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.SecretRef != nil:
		return s.object(ctx, "Secret", from.SecretRef.Name, from.SecretRef.Optional)
	case from.ConfigMapRef != nil:
		return s.object(ctx, "ConfigMap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	}
	return nil, nil
}

// valueFrom returns a variable's value; false when it is left out.
func (s scope) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		v, err := s.field(from.FieldRef.FieldPath)
		return v, true, err
	case from.SecretKeyRef != nil:
		return s.key(ctx, "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional)
	case from.ConfigMapKeyRef != nil:
		return s.key(ctx, "ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional)
	}
	return "", false, fmt.Errorf("the lab knows fieldRef, secretKeyRef and configMapKeyRef only")
}

func (s scope) key(ctx context.Context, kind, name, key string, optional *bool) (string, bool, error) {
	data, err := s.object(ctx, kind, name, optional)
	if err != nil {
		return "", false, err
	}
	v, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("%s %s/%s has no key %q", kind, s.pod.Namespace, name, key)
	}
	return string(v), ok, nil
}

// object reads a Secret or ConfigMap; an absent optional one is empty.
func (s scope) object(ctx context.Context, kind, name string, optional *bool) (map[string][]byte, error) {
	read := s.source.secret
	if kind == "ConfigMap" {
		read = s.source.configMap
	}
	data, err := read(ctx, name)
	if err != nil {
		return nil, err
	}
	if data == nil && (optional == nil || !*optional) {
		return nil, fmt.Errorf("%s %s/%s does not exist", kind, s.pod.Namespace, name)
	}
	return data, nil
}

// field is a downward API field.
func (s scope) field(path string) (string, error) {
	if key, ok := subscript(path, "metadata.labels"); ok {
		return s.pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return s.pod.Annotations[key], nil
	}
	value, ok := map[string]string{
		"metadata.name":           s.pod.Name,
		"metadata.namespace":      s.pod.Namespace,
		"metadata.uid":            string(s.pod.UID),
		"metadata.labels":         formatLines(s.pod.Labels),
		"metadata.annotations":    formatLines(s.pod.Annotations),
		"spec.nodeName":           s.node.Name,
		"spec.serviceAccountName": s.pod.Spec.ServiceAccountName,
		"status.hostIP":           s.node.Address.String(),
		"status.hostIPs":          s.node.Address.String(),
		"status.podIP":            s.addrs[0].String(),
		"status.podIPs":           joinAddrs(s.addrs),
	}[path]
	if !ok {
		return "", fmt.Errorf("the lab does not know the field %q", path)
	}
	return value, nil
}

func subscript(path, field string) (string, bool) {
	rest, ok := strings.CutPrefix(path, field+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

func formatLines(m map[string]string) string {
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "%s=%q\n", k, m[k])
	}
	return out.String()
}

func joinAddrs(addrs []netip.Addr) string {
	var parts []string
	for _, a := range addrs {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, ",")
}

// apiSource reads from the member's API.
type apiSource struct {
	k         *Kubelet
	namespace string
}

func (a apiSource) secret(ctx context.Context, name string) (map[string][]byte, error) {
	s, err := a.k.Client.CoreV1().Secrets(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return nonNil(s.Data), nil
}

func (a apiSource) configMap(ctx context.Context, name string) (map[string][]byte, error) {
	c, err := a.k.Client.CoreV1().ConfigMaps(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := nonNil(c.BinaryData)
	for k, v := range c.Data {
		data[k] = []byte(v)
	}
	return data, nil
}

func nonNil(m map[string][]byte) map[string][]byte {
	if m == nil {
		return map[string][]byte{}
	}
	return m
}
