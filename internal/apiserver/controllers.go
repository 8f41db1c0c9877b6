package apiserver

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	resync             = 12 * time.Hour
	namespaceResync    = 5 * time.Minute
	discoveryResync    = 10 * time.Second // how late a new CRD's objects are collected
	maxSliceEndpoints  = 100              // the default of kube-controller-manager
	controllerWorkers  = 2
	workloadWorkers    = 5
	aggregationWorkers = 1
)

// A controller runs until its context ends.
type controller func(context.Context)

// controllers is what several controllers share.
type controllers struct {
	client    kubernetes.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	informers informers.SharedInformerFactory
	objects   metadatainformer.SharedInformerFactory
	started   chan struct{} // closed once all informers run
}

// startControllers runs the controllers of a cluster against the server that
// loopback reaches, until ctx ends. It returns when they have been started.
func startControllers(ctx context.Context, loopback *rest.Config, f pkiFiles, workloads bool) error {
	c, err := newControllers(loopback)
	if err != nil {
		return err
	}
	makers := []func(context.Context, pkiFiles) (controller, error){
		c.namespaces, c.garbage, c.serviceAccounts, c.tokens, c.rootCA, c.clusterRoles,
	}
	if workloads {
		makers = append(makers, c.deployments, c.replicaSets, c.endpointSlices)
	}
	var all []controller
	for _, maker := range makers {
		run, err := maker(ctx, f)
		if err != nil {
			return fmt.Errorf("start controllers: %w", err)
		}
		all = append(all, run)
	}
	c.informers.Start(ctx.Done())
	c.objects.Start(ctx.Done())
	close(c.started)
	for _, run := range all {
		go run(ctx)
	}
	return nil
}

func newControllers(loopback *rest.Config) (*controllers, error) {
	plain := rest.CopyConfig(loopback)
	plain.QPS = -1 // the server is this process: no client-side limit
	typed := rest.CopyConfig(plain)
	typed.ContentType, typed.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON

	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, fmt.Errorf("loopback client: %w", err)
	}
	meta, err := metadata.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("loopback client: %w", err)
	}
	return &controllers{
		client:    client,
		metadata:  meta,
		discovery: client.Discovery(),
		informers: informers.NewSharedInformerFactory(client, resync),
		objects:   metadatainformer.NewSharedInformerFactory(meta, resync),
		started:   make(chan struct{}),
	}, nil
}

func (c *controllers) namespaces(ctx context.Context, _ pkiFiles) (controller, error) {
	n := namespace.NewNamespaceController(ctx, c.client, c.metadata, c.discovery.ServerPreferredNamespacedResources,
		c.informers.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { n.Run(ctx, controllerWorkers) }, nil
}

func (c *controllers) garbage(ctx context.Context, _ pkiFiles) (controller, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.discovery))
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, c.metadata, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(c.informers, c.objects), c.started)
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, c.client, c.metadata, mapper, graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go gc.Sync(ctx, c.discovery, discoveryResync)
		gc.Run(ctx, controllerWorkers, discoveryResync)
	}, nil
}

func (c *controllers) serviceAccounts(ctx context.Context, _ pkiFiles) (controller, error) {
	s, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx),
		c.informers.Core().V1().ServiceAccounts(), c.informers.Core().V1().Namespaces(), c.client,
		serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { s.Run(ctx, controllerWorkers) }, nil
}

// tokens fills Secrets of type kubernetes.io/service-account-token. Tokens by
// request need no controller.
func (c *controllers) tokens(ctx context.Context, f pkiFiles) (controller, error) {
	ca, err := os.ReadFile(f.caCert)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.PrivateKeyFromFile(f.serviceAccountKey)
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	t, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx),
		c.informers.Core().V1().ServiceAccounts(), c.informers.Core().V1().Secrets(), c.client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { t.Run(ctx, controllerWorkers) }, nil
}

func (c *controllers) rootCA(_ context.Context, f pkiFiles) (controller, error) {
	ca, err := os.ReadFile(f.caCert)
	if err != nil {
		return nil, err
	}
	p, err := rootcacertpublisher.NewPublisher(c.informers.Core().V1().ConfigMaps(), c.informers.Core().V1().Namespaces(), c.client, ca)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { p.Run(ctx, controllerWorkers) }, nil
}

// clusterRoles fills the aggregated roles admin, edit and view.
func (c *controllers) clusterRoles(context.Context, pkiFiles) (controller, error) {
	a := clusterroleaggregation.NewClusterRoleAggregation(c.informers.Rbac().V1().ClusterRoles(), c.client.RbacV1())
	return func(ctx context.Context) { a.Run(ctx, aggregationWorkers) }, nil
}

func (c *controllers) deployments(ctx context.Context, _ pkiFiles) (controller, error) {
	apps := c.informers.Apps().V1()
	d, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), c.informers.Core().V1().Pods(), c.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { d.Run(ctx, workloadWorkers) }, nil
}

func (c *controllers) replicaSets(ctx context.Context, _ pkiFiles) (controller, error) {
	r := replicaset.NewReplicaSetController(ctx, c.informers.Apps().V1().ReplicaSets(), c.informers.Core().V1().Pods(),
		c.client, replicaset.BurstReplicas)
	return func(ctx context.Context) { r.Run(ctx, workloadWorkers) }, nil
}

// endpointSlices gives endpoints the zone of their Pod's Node.
func (c *controllers) endpointSlices(ctx context.Context, _ pkiFiles) (controller, error) {
	core := c.informers.Core().V1()
	e := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(),
		c.informers.Discovery().V1().EndpointSlices(), maxSliceEndpoints, c.client, 0)
	return func(ctx context.Context) { e.Run(ctx, workloadWorkers) }, nil
}
