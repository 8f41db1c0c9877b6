package main

import (
	"context"
	"flag"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cert-manager/cert-manager/pkg/controller"

	// The controllers, which register themselves, and the issuer that they use.
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
)

const (
	workers   = 5                // of each controller
	scheduled = 60               // challenges at once
	retry     = 10 * time.Second // of a challenge's self-check
	backoff   = time.Hour        // after a request that failed, at first
	backsOff  = 32 * time.Hour   // and at last
)

// runController runs all controllers that are built in until ctx ends.
func runController(ctx context.Context, args []string) error {
	o := options()
	f := flag.NewFlagSet("controller", flag.ContinueOnError)
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "of the cluster")
	f.StringVar(&o.HTTP01SolverImage, "acme-http01-solver-image", "", "image of acmesolver")
	if err := f.Parse(args); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, o)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	var all []controller.Interface
	for _, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	for _, c := range all {
		g.Go(func() error { return c.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.GWShared.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return g.Wait()
}

// options are what the defaults of cert-manager's flags come to, with the Gateway API.
func options() controller.ContextOptions {
	return controller.ContextOptions{
		KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			DNS01CheckRetryPeriod:             retry, // that of HTTP-01, too
		},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind: "Issuer", DefaultIssuerGroup: "cert-manager.io",
			DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: backoff, CertificateRequestMaximumBackoffDuration: backsOff,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: scheduled},
		ConfigOptions:    controller.ConfigOptions{EnableGatewayAPI: true},
	}
}
