package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/spillway-dev/spillway/internal/eventually"
)

const (
	readyWithin = 2 * time.Minute
	drainWithin = time.Second     // open watches are cut after this
	stopWithin  = 3 * time.Second // then the database is closed under the server
)

// patience is for what comes soon, within readyWithin altogether.
var patience = eventually.Patience{Poll: 25 * time.Millisecond}

// Run serves until ctx ends, then stops accepting, closes the database and
// returns nil. It calls ready once, with the path of the administrator's
// kubeconfig, when everything the package promises holds. Errors are one line
// and say what to do. It may be called once in a process.
func Run(ctx context.Context, cfg Config, ready func(kubeconfig string)) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	d, err := openDataDir(cfg.DataDir)
	if err != nil {
		return err
	}
	defer d.close()
	l, err := d.listen(cfg.Address)
	if err != nil {
		return err
	}
	defer l.Close()
	in := access{cfg, d, l.Addr()}
	files, admin, err := in.refresh(time.Now())
	if err != nil {
		return err
	}

	logs := routeLogs(cfg.Log)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		logs.mute()
		stop()
	})
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	go keepFresh(serving, tick.C, func(now time.Time) error {
		_, _, err := in.refresh(now)
		return err
	}, cfg.Log)
	err = serve(serving, cfg, d, l, files, logs, func(ctx context.Context) error {
		if err := awaitReady(ctx, admin, cfg); err != nil {
			return err
		}
		logs.ready()
		ready(cfg.KubeconfigPath)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	logs.failed()
	return err
}

// serve runs database, API server and controllers, and calls start beside
// them, until ctx ends or one of them fails.
func serve(ctx context.Context, cfg Config, d *dataDir, l *net.TCPListener, f pkiFiles, logs logs, start func(context.Context) error) error {
	etcd, storageURL, err := startStorage(ctx, d, cfg.UnsafeNoFsync, logs.zap())
	if err != nil {
		return err
	}
	defer etcd.Close()
	opts, err := serverOptions(ctx, cfg, f, l, storageURL)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server, err := newServer(opts, f, cfg.Workloads)
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Run(ctx) }()
	return supervise(ctx, stopped, etcd.Err(), start)
}

// supervise starts start and waits: for the end of ctx, after which the server
// has a moment to stop, or for a failure of server, database or start.
func supervise(ctx context.Context, server, database <-chan error, start func(context.Context) error) error {
	startCtx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- start(startCtx) }()
	for {
		select {
		case err := <-started:
			if err != nil {
				return fmt.Errorf("the API server did not become ready: %w", err)
			}
			started = nil
		case err := <-server:
			return fmt.Errorf("the API server ended: %w", err)
		case err := <-database:
			return fmt.Errorf("the database failed: %w", err)
		case <-ctx.Done():
			select {
			case err := <-server:
				return errors.Join(ctx.Err(), err)
			case <-time.After(stopWithin):
				return ctx.Err()
			}
		}
	}
}

// preparedServer is what app.Run runs.
type preparedServer interface{ Run(context.Context) error }

// newServer is app.Run up to the point of serving, with our controllers as a
// hook behind it.
func newServer(opts options.CompletedOptions, f pkiFiles, workloads bool) (preparedServer, error) {
	config, err := app.NewConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, fmt.Errorf("build the API server: %w", err)
	}
	chain.GenericAPIServer.ShutdownTimeout = drainWithin
	if err := addControllers(chain, f, workloads); err != nil {
		return nil, err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return nil, fmt.Errorf("prepare the API server: %w", err)
	}
	return prepared, nil
}

func addControllers(chain *aggregatorapiserver.APIAggregator, f pkiFiles, workloads bool) error {
	return chain.GenericAPIServer.AddPostStartHook("spillway-controllers", func(h genericapiserver.PostStartHookContext) error {
		return startControllers(h, h.LoopbackClientConfig, f, workloads)
	})
}

// awaitReady returns when the server says it is ready, the default namespace
// has its service account (so the controllers work), and CRDs and roles are there.
func awaitReady(ctx context.Context, admin *rest.Config, cfg Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	err = patience.Await(ctx, "/readyz", func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("/readyz: %w", err)
	}
	if cfg.CRDs {
		if err := installRoles(ctx, admin); err != nil {
			return err
		}
	}
	if err := installCRDs(ctx, admin, cfg); err != nil {
		return err
	}
	return patience.Await(ctx, "the default service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// firstIP is the cluster IP of the service "kubernetes".
func firstIP(cidr string) net.IP {
	return netip.MustParsePrefix(cidr).Masked().Addr().Next().AsSlice()
}
