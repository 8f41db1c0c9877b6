package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/app"
)

// wide is one Ingress with many hosts, of which one path changes at a time.
type wide struct{ hosts, edits int }

func (c wide) String() string { return fmt.Sprintf("one Ingress of %d hosts", c.hosts) }

// measure reports what a change of one path costs: to read the object, from its
// decoded form to rows, and to commit and publish what differs. The control
// plane runs in this process, without proxies.
func (c wide) measure(out *figures) error {
	one := newFleet(size{members: 1, endpoints: perHost}, [2]certificate{})
	plane := app.NewOffline(app.OfflineOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	var err error
	for _, plural := range plane.Feed.Kinds() {
		var list []metav1.Object
		switch plural {
		case "ingresses":
			list = []metav1.Object{c.ingress(0)}
		case "edges":
			at := one.edge()
			at.Spec.Addresses = []v1alpha1.EdgeAddress{{Value: "192.0.2.1"}}
			list = []metav1.Object{at}
		case "ingressclasses", "gatewayclassconfigs":
			list = []metav1.Object{constant(plural)[0].(metav1.Object)}
		}
		err = errors.Join(err, plane.Feed.List(plural, list))
	}
	plane.Turn()
	if n := plane.Tables().Program.Hosts.Len(); n < c.hosts || err != nil {
		return fmt.Errorf("%s: %d hosts: %w", c, n, err)
	}
	evaluated := func() (n int) {
		for _, t := range plane.Tables().Graph.Tables() {
			n += t.Evaluations
		}
		return n
	}
	before := evaluated()
	var reads, commits []time.Duration // nothing else runs: a thread's CPU time is too coarse for one
	for i := range c.edits {
		o := c.ingress(1 + i)
		runtime.GC()
		start := time.Now()
		err = errors.Join(err, plane.Feed.Put("ingresses", o))
		read := time.Now()
		plane.Turn()
		reads, commits = append(reads, read.Sub(start)), append(commits, time.Since(read))
	}
	rows := evaluated() - before
	at := params{"hosts": c.hosts}
	out.add("wide_ingress.ingest_us", at, micro(median(reads)), "us")
	out.add("wide_ingress.commit_us", at, micro(median(commits)), "us")
	out.add("wide_ingress.rows", at, float64(rows)/float64(c.edits), "")
	return err
}

// ingress is the object after some edits, each of one path.
func (c wide) ingress(edits int) *networkingv1.Ingress {
	o := &networkingv1.Ingress{ObjectMeta: named("shop", "wide")}
	o.Generation += int64(edits)
	name := class
	o.Spec.IngressClassName = &name
	for i := range c.hosts {
		path := "/"
		if i < edits {
			path = "/new"
		}
		o.Spec.Rules = append(o.Spec.Rules, ruleOf(i, path))
	}
	return o
}
