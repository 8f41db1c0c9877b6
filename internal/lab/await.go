package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	pollEvery     = 50 * time.Millisecond
	startPatience = 2 * time.Minute
)

// awaitAPI waits until an API server is ready, the kubeconfig being written
// meanwhile. broken is asked now and then; its error ends the waiting.
func awaitAPI(ctx context.Context, kubeconfig string, broken func() error) error {
	return await(ctx, "the API server of "+kubeconfig, func(ctx context.Context) error { return ready(ctx, kubeconfig) }, broken)
}

// await asks until there is no error, or one of broken.
func await(ctx context.Context, what string, ask func(context.Context) error, broken func() error) error {
	return eventually.Patience{Most: startPatience, Poll: pollEvery}.Await(ctx, what, func(ctx context.Context) error {
		err := ask(ctx)
		if end := broken(); err != nil && end != nil {
			return eventually.Never(end)
		}
		return err
	})
}

func ready(ctx context.Context, kubeconfig string) error {
	if _, err := os.Stat(kubeconfig); err != nil {
		return err
	}
	client, err := clientFor(kubeconfig)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(time.Second).Do(ctx).Error()
}

func clientFor(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := user.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// redirectKubeconfig copies a kubeconfig with another server.
func redirectKubeconfig(from, to, server string) error {
	c, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", filepath.Base(from), err)
	}
	for _, cluster := range c.Clusters {
		cluster.Server = server
	}
	b, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	return files.Replace(to, b, 0o600)
}
