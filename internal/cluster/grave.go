package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// Reach is how to reach what a connection leads to, whoever has it: the configuration,
// or why there is none, as a reason of Connected and a message. Neither: it is not known
// yet.
func (f *Members) Reach(c ingest.Connection) (config *rest.Config, reason, message string) {
	f.mu.Lock()
	data, there := f.secrets[c.Secret][c.Key]
	listed := f.listed
	f.mu.Unlock()
	switch {
	case !there && !listed:
		return nil, "", ""
	case !there || len(data) == 0:
		r := refuse(v1alpha1.ReasonSecretNotFound, "Secret %s with a kubeconfig in key %s is not there", c.Secret, c.Key)
		return nil, r.reason, r.message
	}
	config, err := connection(Kubeconfig{Data: data, Proxied: c.Proxied})
	if err != nil {
		r := refusalOf(err)
		return nil, r.reason, r.message
	}
	return config, "", ""
}

// Identify asks which cluster a member is; empty: it does not tell.
func Identify(ctx context.Context, config *rest.Config) (model.ClusterID, error) {
	a, err := dial(config, newSpeed(func() {}))
	if err != nil {
		return "", err
	}
	defer a.close()
	core, err := a.group(corev1.SchemeGroupVersion)
	if err != nil {
		return "", err
	}
	uid, err := uidOf(ctx, core)
	return model.ClusterID(uid), err
}

// Cause is why an API server could not be asked, without what it may have said at length.
func Cause(err error) string { return cause(err) }
