package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// offers is which kinds a server has, by group, as it last said. Those that it does not
// have are many, and of few groups: one question is for all of a group that come within a
// time, where each would send two requests to learn the same of itself.
type offers struct {
	mu  sync.Mutex
	all map[schema.GroupVersion]*offer
}

// offer is one answer. Who asks meanwhile waits for it.
type offer struct {
	mu    sync.Mutex
	at    time.Time
	lacks func(plural string) bool
}

func newOffers() *offers { return &offers{all: map[schema.GroupVersion]*offer{}} }

// lack reports whether the server says, or said within a time, that it does not have a
// kind. Where it does not say, a list tells.
func (o *offers) lack(ctx context.Context, c *rest.RESTClient, plural string, within time.Duration) bool {
	gv := c.APIVersion()
	o.mu.Lock()
	of := o.all[gv]
	if of == nil {
		of = &offer{}
		o.all[gv] = of
	}
	o.mu.Unlock()
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.lacks == nil || time.Since(of.at) > within {
		of.lacks, of.at = kindsOf(ctx, c, gv), time.Now()
	}
	return of.lacks(plural)
}

// kindsOf asks for the kinds of a group.
func kindsOf(ctx context.Context, c *rest.RESTClient, gv schema.GroupVersion) func(plural string) bool {
	text, err := c.Get().AbsPath("/apis", gv.Group, gv.Version).SetHeader("Accept", jsonType).MaxRetries(0).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return func(string) bool { return true }
	}
	var list metav1.APIResourceList
	if err != nil || json.Unmarshal(text, &list) != nil || list.Kind != "APIResourceList" {
		return func(string) bool { return false }
	}
	return func(plural string) bool {
		return !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
	}
}
