package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

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
	err := await(ctx, func(ctx context.Context) error { return ready(ctx, kubeconfig) }, broken)
	if late := new(notReady); errors.As(err, &late) {
		return fmt.Errorf("API server of %s is not ready: %w", kubeconfig, late.last)
	}
	return err
}

// notReady says what was missing when patience ended.
type notReady struct{ last error }

func (e *notReady) Error() string { return e.last.Error() }

// await asks until there is no error, or one of broken.
func await(ctx context.Context, ask func(context.Context) error, broken func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		if err := broken(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &notReady{last}
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
	return files.Replace(to, b, 0o600)
}
