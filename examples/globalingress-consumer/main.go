// Command globalingress-consumer writes the records of a DNS zone file (RFC 1035, 5) from
// the GlobalIngresses of a hub. It is a sample: copy it, and put your DNS or load balancer
// in the place of the file.
//
// It does what every consumer should: it holds a finalizer while it has records of an
// object, says in the status, in an entry of its own, that it has them, and needs no more
// than the API: see role.yaml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "globalingress-consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("globalingress-consumer", flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "of the hub; left out: that of the pod")
	file := f.String("file", "records.zone", "is written anew whenever records change")
	ttl := f.Int("ttl", 30, "of records, in seconds")
	if err := f.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	c := &consumer{client: client, file: &zoneFile{path: *file, ttl: *ttl}, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return c.run(ctx)
}
