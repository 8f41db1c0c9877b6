package apiserver

import (
	"context"
	"fmt"
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// serviceAccountIssuer is the issuer in service account tokens.
const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// withoutAdmission are default admission plugins we leave out: each waits for,
// or prepares for, a component that isn't there.
var withoutAdmission = []string{
	"ClusterTrustBundleAttest",     // no certificate signers
	"DefaultStorageClass",          // no volumes
	"DefaultTolerationSeconds",     // no taint eviction
	"PersistentVolumeClaimResize",  // no volumes
	"PodSecurity",                  // pods run as the lab says
	"Priority",                     // no scheduler
	"ResourceQuota",                // no quota controller fills its status
	"RuntimeClass",                 // no container runtime
	"ServiceAccount",               // pods get no token volume nobody mounts, and don't wait for one
	"StorageObjectInUseProtection", // its finalizers would never be removed
	"TaintNodesByCondition",        // no node lifecycle controller takes the taint off
}

// featureGates turns off what a server without peers has no use for.
const featureGates = "UnknownVersionInteroperabilityProxy=false"

// serverOptions is a kube-apiserver that serves on l from the database at
// storageURL.
func serverOptions(ctx context.Context, cfg Config, f pkiFiles, l *net.TCPListener, storageURL string) (options.CompletedOptions, error) {
	addr := l.Addr().(*net.TCPAddr)
	o := options.NewServerRunOptions()
	o.Etcd.StorageConfig.Transport.ServerList = []string{storageURL}
	o.SecureServing.Listener = l
	o.SecureServing.BindAddress, o.SecureServing.BindPort = addr.IP, addr.Port
	o.SecureServing.ServerCert.CertKey.CertFile = f.servingCert
	o.SecureServing.ServerCert.CertKey.KeyFile = f.servingKey
	o.GenericServerRunOptions.AdvertiseAddress = addr.IP
	o.EndpointReconcilerType = "none"

	o.Authentication.ClientCert.ClientCA = f.caCert
	o.Authentication.ServiceAccounts.Issuers = []string{serviceAccountIssuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{f.serviceAccountKey}
	o.ServiceAccountSigningKeyFile = f.serviceAccountKey
	o.Authorization.Modes = []string{"RBAC"}
	o.Admission.GenericAdmission.DisablePlugins = withoutAdmission

	o.ServiceClusterIPRanges = cfg.ServiceCIDR
	o.AllowPrivileged = true
	o.KubeletConfig.PreferredAddressTypes = []string{"ExternalIP", "InternalIP", "Hostname"}
	o.KubeletConfig.TLSClientConfig.CertFile = f.adminCert
	o.KubeletConfig.TLSClientConfig.KeyFile = f.adminKey

	registry := o.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.FeatureGateFor(basecompatibility.DefaultKubeComponent).(featuregate.MutableFeatureGate).Set(featureGates); err != nil {
		return options.CompletedOptions{}, fmt.Errorf("feature gates: %w", err)
	}
	if err := registry.Set(); err != nil {
		return options.CompletedOptions{}, fmt.Errorf("feature gates: %w", err)
	}
	done, err := o.Complete(ctx)
	if err != nil {
		return done, fmt.Errorf("API server options: %w", err)
	}
	if err := utilerrors.NewAggregate(done.Validate()); err != nil {
		return done, fmt.Errorf("API server options: %w", err)
	}
	return done, nil
}
