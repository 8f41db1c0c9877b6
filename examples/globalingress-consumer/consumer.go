package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	// consumerName is how this consumer is called in statuses. Give yours a name of your own.
	consumerName = "example.com/zone-file"
	finalizer    = consumerName
	fieldManager = "example-zone-file"

	conditionProgrammed = "Programmed"
)

var resource = v1alpha1.GroupVersion.WithResource("globalingresses")

// consumer has the file say what GlobalIngresses say.
type consumer struct {
	client dynamic.Interface
	file   *zoneFile
	log    *slog.Logger
}

// run works until ctx ends. One goroutine does all the work, so the file needs no lock.
func (c *consumer) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	informers := dynamicinformer.NewDynamicSharedInformerFactory(c.client, 0)
	of := informers.ForResource(resource).Informer()
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := of.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, o any) { add(o) }, DeleteFunc: add,
	}); err != nil {
		return err
	}
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	// Before all is known, the file would be a part of what it should be.
	if !cache.WaitForCacheSync(ctx.Done(), of.HasSynced) {
		return ctx.Err()
	}
	if err := c.first(of.GetStore().List()); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for {
		key, end := queue.Get()
		if end {
			return ctx.Err()
		}
		if err := c.sync(ctx, of.GetStore(), key); err != nil {
			c.log.Warn("not done, trying again", "object", key, "error", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// first writes the whole file at once.
func (c *consumer) first(all []any) error {
	c.file.records = map[string][]record{}
	for _, one := range all {
		o, err := read(one.(*unstructured.Unstructured))
		if err != nil {
			return err
		}
		if o.DeletionTimestamp == nil {
			c.file.records[o.Namespace+"/"+o.Name] = recordsOf(o)
		}
	}
	return c.file.write()
}

// sync brings one object and the file together.
func (c *consumer) sync(ctx context.Context, store cache.Store, key string) error {
	one, there, err := store.GetByKey(key)
	if err != nil {
		return err
	}
	if !there {
		return c.file.set(key, nil)
	}
	o, err := read(one.(*unstructured.Unstructured))
	if err != nil {
		return err
	}
	if o.DeletionTimestamp != nil {
		// First the records, then the finalizer: nobody is told of a site that is gone.
		if err := c.file.set(key, nil); err != nil {
			return err
		}
		return c.hold(ctx, o, false)
	}
	if err := c.hold(ctx, o, true); err != nil {
		return err
	}
	records := recordsOf(o)
	if err := c.file.set(key, records); err != nil {
		return err
	}
	return c.say(ctx, o, len(records))
}

func read(u *unstructured.Unstructured) (*v1alpha1.GlobalIngress, error) {
	o := &v1alpha1.GlobalIngress{}
	return o, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
}

// hold adds the finalizer, or takes it away. The list is one value that several write, so
// the patch holds only if the object still is the one that was read.
func (c *consumer) hold(ctx context.Context, o *v1alpha1.GlobalIngress, is bool) error {
	if slices.Contains(o.Finalizers, finalizer) == is {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == finalizer })
	if is {
		list = append(list, finalizer)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.ResourceVersion, "finalizers": list}})
	if err != nil {
		return err
	}
	_, err = c.client.Resource(resource).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// say writes our entry of the status, if it does not say so already.
func (c *consumer) say(ctx context.Context, o *v1alpha1.GlobalIngress, records int) error {
	now := metav1.Condition{
		Type: conditionProgrammed, Status: metav1.ConditionTrue, Reason: "Written", Message: fmt.Sprintf("%d records", records),
		ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	if records == 0 {
		now.Status, now.Reason, now.Message = metav1.ConditionFalse, "NoSite", "no site that serves has an address"
	}
	for _, entry := range o.Status.Consumers {
		for _, was := range entry.Conditions {
			if entry.Name != consumerName || was.Type != now.Type {
				continue
			}
			if was.Status == now.Status {
				now.LastTransitionTime = was.LastTransitionTime
			}
			if was == now {
				return nil
			}
		}
	}
	says := &v1alpha1.GlobalIngress{Status: v1alpha1.GlobalIngressStatus{Consumers: []v1alpha1.GlobalConsumer{
		{Name: consumerName, ObservedGeneration: o.Generation, Conditions: []metav1.Condition{now}},
	}}}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&says.Status)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind("GlobalIngress")
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	_, err = c.client.Resource(resource).Namespace(o.Namespace).ApplyStatus(ctx, o.Name, u, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
