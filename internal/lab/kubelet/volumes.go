package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tokenLife = 24 * 60 * 60 // seconds, unless the pod says

// volumes writes the contents of the pod's volumes below dir, one folder each,
// and returns where each is.
func (w *worker) volumes(ctx context.Context, dir string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range w.pod.Spec.Volumes {
		path := filepath.Join(dir, v.Name)
		if v.HostPath != nil {
			out[v.Name] = v.HostPath.Path
			continue
		}
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		files, err := w.volume(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		for name, data := range files {
			if err := writeInside(path, name, data); err != nil {
				return nil, fmt.Errorf("volume %s: %w", v.Name, err)
			}
		}
		out[v.Name] = path
	}
	return out, nil
}

// writeInside writes a file below dir; a name that leads out is an error.
func writeInside(dir, name string, data []byte) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("path %q leads out of the volume", name)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// volume returns the files of one volume by their path.
func (w *worker) volume(ctx context.Context, v corev1.Volume) (map[string][]byte, error) {
	s := w.scope()
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.Secret != nil:
		data, err := s.object(ctx, "Secret", v.Secret.SecretName, v.Secret.Optional)
		return items(data, v.Secret.Items), err
	case v.ConfigMap != nil:
		data, err := s.object(ctx, "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		return items(data, v.ConfigMap.Items), err
	case v.DownwardAPI != nil:
		return s.downward(v.DownwardAPI.Items)
	case v.Projected != nil:
		return w.projected(ctx, s, v.Projected.Sources)
	}
	return nil, fmt.Errorf("the lab knows emptyDir, hostPath, secret, configMap, downwardAPI and projected volumes only")
}

func (w *worker) projected(ctx context.Context, s scope, sources []corev1.VolumeProjection) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, src := range sources {
		files, err := map[string][]byte(nil), error(nil)
		switch {
		case src.Secret != nil:
			files, err = s.object(ctx, "Secret", src.Secret.Name, src.Secret.Optional)
			files = items(files, src.Secret.Items)
		case src.ConfigMap != nil:
			files, err = s.object(ctx, "ConfigMap", src.ConfigMap.Name, src.ConfigMap.Optional)
			files = items(files, src.ConfigMap.Items)
		case src.DownwardAPI != nil:
			files, err = s.downward(src.DownwardAPI.Items)
		case src.ServiceAccountToken != nil:
			files, err = w.token(ctx, src.ServiceAccountToken)
		default:
			err = fmt.Errorf("a projected source that the lab does not know")
		}
		if err != nil {
			return nil, err
		}
		for name, data := range files {
			all[name] = data
		}
	}
	return all, nil
}

// items selects and renames keys; without items it is all of them.
func items(data map[string][]byte, want []corev1.KeyToPath) map[string][]byte {
	if len(want) == 0 {
		return data
	}
	out := map[string][]byte{}
	for _, it := range want {
		if v, ok := data[it.Key]; ok {
			out[it.Path] = v
		}
	}
	return out
}

func (s scope) downward(want []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, it := range want {
		if it.FieldRef == nil {
			return nil, fmt.Errorf("file %s: the lab knows fieldRef only", it.Path)
		}
		v, err := s.field(it.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		out[it.Path] = []byte(v)
	}
	return out, nil
}

// token asks for a service account token bound to the pod.
func (w *worker) token(ctx context.Context, want *corev1.ServiceAccountTokenProjection) (map[string][]byte, error) {
	seconds := int64(tokenLife)
	if want.ExpirationSeconds != nil {
		seconds = max(*want.ExpirationSeconds, tokenLife) // it is not renewed here
	}
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: w.pod.Name, UID: w.pod.UID},
	}}
	if want.Audience != "" {
		request.Spec.Audiences = []string{want.Audience}
	}
	got, err := w.k.Client.CoreV1().ServiceAccounts(w.pod.Namespace).CreateToken(ctx, w.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("service account token: %w", err)
	}
	return map[string][]byte{want.Path: []byte(got.Status.Token)}, nil
}

// mounts are a container's mounts of the pod's volumes.
func mounts(c *corev1.Container, volumes map[string]string) ([]Mount, error) {
	var out []Mount
	for _, m := range c.VolumeMounts {
		source, ok := volumes[m.Name]
		if !ok {
			return nil, fmt.Errorf("container %s mounts volume %s, which the pod lacks", c.Name, m.Name)
		}
		if m.SubPath != "" {
			if !filepath.IsLocal(m.SubPath) {
				return nil, fmt.Errorf("container %s: subPath %q leads out of the volume", c.Name, m.SubPath)
			}
			source = filepath.Join(source, m.SubPath)
		}
		out = append(out, Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return out, nil
}
