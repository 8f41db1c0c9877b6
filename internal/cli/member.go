package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/app"
)

// What is asked for on the hub.
var (
	memberClusters = v1alpha1.GroupVersion.WithResource("memberclusters")
	tombstones     = v1alpha1.GroupVersion.WithResource("membertombstones")
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// memberCommand is "member": what is done to members by hand. It writes to the hub.
func memberCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "member", Short: "Take a member out of the fleet", Args: cobra.NoArgs}
	cmd.AddCommand(removeCommand())
	return cmd
}

func removeCommand() *cobra.Command {
	r := removal{every: time.Second}
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Delete a MemberCluster, and wait until it is gone",
		Long: `Delete a MemberCluster, and wait until it is gone: its leaves are deleted
first. It says what it waits for. If the member is away its leaves stay until
it is reached again, and a MemberTombstone remembers them.

With --forget nothing waits, the member is not asked for anything, and nobody
remembers its leaves: for one that never returns, or after serve was
uninstalled. It says how to delete by hand what is left there, of every kind.`,
		Example: "  spillway member remove eu-1\n  spillway member remove eu-1 --forget",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("say which member: one name")
			}
			r.name = args[0]
			return nil
		},
		PreRunE: func(*cobra.Command, []string) error { return checkFormat(r.format, "table", "json", "yaml") },
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if r.hub, _, err = hubAt(kubeconfig); err != nil {
				return err
			}
			r.out, r.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return r.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the hub; as kubectl finds it if left out")
	f.BoolVar(&r.forget, "forget", false, "give up on its leaves, and wait for nothing")
	f.DurationVar(&r.limit, "timeout", 5*time.Minute, "longest wait")
	f.StringVarP(&r.format, "output", "o", "table", "table, json or yaml")
	return cmd
}

// hubAt is a client of the hub, and the namespace that its kubeconfig is for.
func hubAt(kubeconfig string) (client dynamic.Interface, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loader.ClientConfig()
	if err == nil {
		namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig of the hub (--kubeconfig): %w", err)
	}
	client, err = dynamic.NewForConfig(config)
	return client, namespace, err
}

// removal takes a member out of the fleet.
type removal struct {
	hub          dynamic.Interface
	name, format string
	forget       bool
	limit, every time.Duration
	out, errs    io.Writer
}

// removed is what became of it.
type removed struct {
	Member     string   `json:"member"`
	Removed    bool     `json:"removed"`
	WaitsFor   string   `json:"waitsFor,omitempty"`
	Leaves     *int32   `json:"leaves,omitempty"`     // that are left in the member, as far as known
	Tombstones []string `json:"tombstones,omitempty"` // MemberTombstones that remember them
	Forgotten  bool     `json:"forgotten,omitempty"`
	CleanUp    string   `json:"cleanUp,omitempty"`        // deletes what is left, run against the member
	MadeSpaces string   `json:"listNamespaces,omitempty"` // lists the namespaces that were made there
	CleanKeys  string   `json:"cleanUpKeys,omitempty"`    // the same of copies of TLS Secrets
}

func (r *removal) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("it is not gone after %s", r.limit))
	defer cancel()
	member, err := r.get(ctx)
	if err != nil {
		return err
	}
	stones, err := r.stones(ctx)
	switch {
	case err != nil:
		return err
	case member == nil && len(stones) == 0:
		return fmt.Errorf("there is no MemberCluster %s, and nothing remembers leaves of one: `kubectl get members,tombstones` lists them", r.name)
	}
	done := removed{Member: r.name, Removed: true}
	if member != nil {
		done.Leaves = member.Status.Leaves
		if err := r.remove(ctx, member, &done); err != nil {
			if r.format != "table" {
				done.Removed = false
				err = errors.Join(err, r.show(done))
			}
			return err
		}
	}
	if stones, err = r.stones(ctx); err != nil {
		return err
	}
	if r.forget {
		err = r.bury(ctx, stones, &done)
	} else {
		done.remember(stones)
	}
	return errors.Join(err, r.show(done))
}

// get reads the MemberCluster; nil: there is none.
func (r *removal) get(ctx context.Context) (*v1alpha1.MemberCluster, error) {
	o, err := r.hub.Resource(memberClusters).Get(ctx, r.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var m v1alpha1.MemberCluster
	return &m, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m)
}

// stones are the tombstones of members of the name.
func (r *removal) stones(ctx context.Context) ([]v1alpha1.MemberTombstone, error) {
	list, err := r.hub.Resource(tombstones).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // an older hub
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var out []v1alpha1.MemberTombstone
	for i := range list.Items {
		var s v1alpha1.MemberTombstone
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &s); err != nil {
			return nil, err
		}
		if s.Spec.Member == r.name {
			out = append(out, s)
		}
	}
	return out, nil
}

// remove deletes the MemberCluster, and returns when it is gone.
func (r *removal) remove(ctx context.Context, m *v1alpha1.MemberCluster, done *removed) error {
	uid := m.UID
	err := r.hub.Resource(memberClusters).Delete(ctx, r.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("hub: %w", err)
	}
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		if m, err = r.get(ctx); err == nil && (m == nil || m.UID != uid) {
			done.WaitsFor = ""
			return nil
		}
		if err == nil && r.forget {
			err = r.letGo(ctx, m)
		} else if err == nil {
			done.Leaves = m.Status.Leaves
			err = r.told(m, done)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; it waits for: %s", context.Cause(ctx), done.WaitsFor)
		}
	}
}

// told says what it waits for. A last site does not end by itself.
func (r *removal) told(m *v1alpha1.MemberCluster, done *removed) error {
	waits := "serve to let it go: is one running?"
	if m.Status.Leaves != nil && *m.Status.Leaves > 0 {
		waits = fmt.Sprintf("%d leaves to be deleted", *m.Status.Leaves)
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionAccepted); c != nil && c.Message != "" {
		waits = c.Message
		if c.Reason == "LastSite" {
			done.WaitsFor = waits
			return fmt.Errorf("it stays: %s", waits)
		}
	}
	if waits != done.WaitsFor {
		done.WaitsFor = waits
		fmt.Fprintf(r.errs, "waiting for: %s\n", printable(waits))
	}
	return nil
}

// ours are the finalizers that hold a MemberCluster back.
var ours = []string{v1alpha1.FinalizerLeaves, v1alpha1.FinalizerMember}

// letGo takes our finalizers away.
func (r *removal) letGo(ctx context.Context, m *v1alpha1.MemberCluster) error {
	left := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return slices.Contains(ours, f) })
	if len(left) == len(m.Finalizers) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion, "finalizers": left}})
	if err != nil {
		return err
	}
	_, err = r.hub.Resource(memberClusters).Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is looked at again
	}
	return err
}

// remember says who remembers leaves that are left.
func (d *removed) remember(stones []v1alpha1.MemberTombstone) {
	d.Leaves = nil
	for i := range stones {
		d.Tombstones = append(d.Tombstones, stones[i].Name)
		d.add(stones[i].Spec.Leaves)
	}
}

func (d *removed) add(leaves *int32) {
	switch {
	case leaves == nil:
	case d.Leaves == nil:
		d.Leaves = new(*leaves)
	default:
		*d.Leaves += *leaves
	}
}

// bury deletes the tombstones, and says what is left.
func (r *removal) bury(ctx context.Context, stones []v1alpha1.MemberTombstone, done *removed) error {
	done.Forgotten = true
	label := v1alpha1.LabelHub
	for i := range stones {
		if err := r.hub.Resource(tombstones).Delete(ctx, stones[i].Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("hub: %w", err)
		}
		if done.Leaves == nil {
			done.add(stones[i].Spec.Leaves)
		}
	}
	var system *unstructured.Unstructured
	var err error
	if system, err = r.hub.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err == nil && system.GetUID() != "" {
		label += "=" + string(system.GetUID())
	}
	done.CleanUp = "for kind in " + leafKinds() + "; do kubectl --kubeconfig MEMBER.kubeconfig delete $kind -A -l " + label + "; done"
	done.MadeSpaces = "kubectl --kubeconfig MEMBER.kubeconfig get namespace -l " + label
	done.CleanKeys = "kubectl --kubeconfig MEMBER.kubeconfig delete secret -A -l " + v1alpha1.LabelKey + "," + label
	return nil
}

// leafKinds are the kinds of leaves, as kubectl calls them. It is told of one at a time: of
// several it deletes none if the member does not know one of them.
func leafKinds() string {
	var out []string
	for _, r := range app.LeafResources() {
		out = append(out, r.GroupResource().String())
	}
	return strings.Join(out, " ")
}

// show says what became of it.
func (r *removal) show(d removed) error {
	if r.format != "table" {
		body, err := json.Marshal(d)
		if err != nil {
			return err
		}
		return encode(r.out, r.format, body)
	}
	leaves := "leaves that it may have"
	if d.Leaves != nil {
		leaves = fmt.Sprintf("its leaves (%d, as far as known)", *d.Leaves)
	}
	lines := []string{fmt.Sprintf("MemberCluster %s is gone", d.Member)}
	switch {
	case d.Forgotten:
		lines = append(lines, leaves+" stay in the member, and nobody remembers them. To delete them there, where a kind that the member does not have is an error that does no harm:", "  "+d.CleanUp, "and where it was given keys:", "  "+d.CleanKeys, "Namespaces that were made there are listed by:", "  "+d.MadeSpaces)
	case len(d.Tombstones) > 0:
		lines = append(lines, fmt.Sprintf("the member is away: %s are deleted when it is reached again, which MemberTombstone %s remembers. Keep the Secret of its kubeconfig until then", leaves, joined(d.Tombstones)))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(r.out, printable(line)); err != nil {
			return err
		}
	}
	return nil
}
