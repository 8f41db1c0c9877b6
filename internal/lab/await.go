package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	pollEvery   = 50 * time.Millisecond
	apiPatience = 2 * time.Minute
)

// awaitAPI waits until an API server is ready, the kubeconfig being written
// meanwhile. broken is asked now and then; its error ends the waiting.
func awaitAPI(ctx context.Context, kubeconfig string, broken func() error) error {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := error(nil)
	for {
		if last = ready(ctx, kubeconfig); last == nil {
			return nil
		}
		if err := broken(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("API server of %s is not ready: %w", kubeconfig, last)
		}
	}
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
	return writeFile(to, b, 0o600)
}
