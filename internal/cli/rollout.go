package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// rolls are commands about edits of objects of the hub that go to members in waves
// (spec.rollout of a Placement). How edits stand is what statuses of Placements say.
type rolls struct {
	kubeconfig, format string
	namespace          string // empty: all
	everywhere         bool
	of                 *target // nil: all
	token              string  // that the edit must have; empty: any
	limit, every       time.Duration
	hub                dynamic.Interface
	out, errs          io.Writer
	narrow             bool // only the Placements of the namespace may be listed
}

// rolled is a kind whose edits may go in waves.
type rolled struct {
	kind     string
	resource schema.GroupVersionResource
	short    string
}

func ofGateways(kind, plural string) rolled {
	return rolled{kind, schema.GroupVersion(gatewayv1.GroupVersion).WithResource(plural), ""}
}

// rolledKinds are the kinds of roots that have leaves.
var rolledKinds = []rolled{
	{"Ingress", networkingv1.SchemeGroupVersion.WithResource("ingresses"), "ing"},
	ofGateways("Gateway", "gateways"),
	ofGateways("HTTPRoute", "httproutes"),
	ofGateways("GRPCRoute", "grpcroutes"),
	ofGateways("TLSRoute", "tlsroutes"),
	ofGateways("TCPRoute", "tcproutes"),
	ofGateways("UDPRoute", "udproutes"),
	{"Route", routev1.GroupVersion.WithResource("routes"), ""},
}

// target is an object that a command is about.
type target struct {
	rolled
	name string
}

// targetOf reads KIND NAME or KIND/NAME. A kind is written as for kubectl.
func targetOf(args []string) (*target, error) {
	said, name, slash := strings.Cut(args[0], "/")
	switch {
	case len(args) == 2 && !slash:
		name = args[1]
	case len(args) > 1 || said == "" || name == "":
		return nil, errors.New("say which object: KIND NAME or KIND/NAME, such as Ingress/web")
	}
	kind, group, qualified := strings.Cut(strings.ToLower(said), ".")
	for _, k := range rolledKinds {
		if (kind == strings.ToLower(k.kind) || kind == k.resource.Resource || kind == k.short) && (!qualified || group == k.resource.Group) {
			return &target{k, name}, nil
		}
	}
	names := each(rolledKinds, func(k rolled) string { return k.kind })
	err := fmt.Sprintf("no edits of a %s go to members in waves: use %s", said, strings.Join(names, ", "))
	if near := Nearest(said, names); near != "" {
		err += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, errors.New(err)
}

// rolloutCommand is "rollout": what becomes of edits that go to members in waves.
func rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rollout", Short: "Show edits that go to members in waves, and have them go on or back", Args: cobra.NoArgs}
	cmd.AddCommand(rolloutStatus(), rolloutWord("resume", "Have an edit that is stopped go on",
		`Have an edit that is stopped go on: members that lost something by it have lost
it. One that was taken back begins at the first wave again.

With --edit an edit goes on, too, that is not stopped but waits for something
that a member does not have any more.`),
		rolloutWord("back", "Have all members get what was before an edit that is stopped",
			`Have all members get what was before an edit that is stopped. The object stays
edited. It is so until it is edited anew, or `+"`spillway rollout resume`"+`.

With --edit an edit is taken back, too, that is not stopped.`))
	return cmd
}

func rolloutStatus() *cobra.Command {
	r := &rolls{}
	cmd := &cobra.Command{
		Use:   "status [KIND NAME]",
		Short: "Show the edits that not all members have",
		Long: `Show the edits that not all members have: of one object, of a namespace, or
with -A of all. It says in which wave each is, why it is stopped or for what it
waits, and what its owner may do. It is read from statuses of Placements.`,
		Example: "  spillway rollout status -n shop\n  spillway rollout status Ingress web -n shop\n  spillway rollout status -A -o json",
		Args: func(_ *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				r.of, err = targetOf(args)
			}
			return err
		},
		PreRunE: func(*cobra.Command, []string) error {
			if r.everywhere && (r.of != nil || r.namespace != "") {
				return errors.New("--all-namespaces is for all objects: leave out the name and --namespace")
			}
			return checkFormat(r.format, "table", "json", "yaml")
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.open(cmd); err != nil {
				return err
			}
			return r.status(cmd.Context())
		},
	}
	r.flags(cmd.Flags())
	cmd.Flags().BoolVarP(&r.everywhere, "all-namespaces", "A", false, "of all namespaces")
	return cmd
}

// rolloutWord is a command that says how an edit goes on.
func rolloutWord(verb, short, long string) *cobra.Command {
	r := &rolls{every: time.Second / 2}
	cmd := &cobra.Command{
		Use:   verb + " KIND NAME",
		Short: short,
		Long: long + `

It writes the annotation spillway.dev/rollout with the token of the edit, unless
the object was changed since it was read, and waits until serve has taken it up.`,
		Example: fmt.Sprintf("  spillway rollout %[1]s Ingress web -n shop\n  spillway rollout %[1]s HTTPRoute/web -n shop --edit 1f0c9a2b", verb),
		Args: func(_ *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				args = []string{""}
			}
			r.of, err = targetOf(args)
			return err
		},
		PreRunE: func(*cobra.Command, []string) error { return checkFormat(r.format, "table", "json", "yaml") },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.open(cmd); err != nil {
				return err
			}
			return r.say(cmd.Context(), verb)
		},
	}
	r.flags(cmd.Flags())
	cmd.Flags().StringVar(&r.token, "edit", "", "only if the edit has this `TOKEN`, which status shows")
	cmd.Flags().DurationVar(&r.limit, "timeout", time.Minute, "longest wait for serve; 0s: do not wait")
	return cmd
}

func (r *rolls) flags(f *pflag.FlagSet) {
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the hub; as kubectl finds it if left out")
	f.StringVarP(&r.namespace, "namespace", "n", "", "namespace of the object; that of the kubeconfig if left out")
	f.StringVarP(&r.format, "output", "o", "table", "table, json or yaml")
}

// open finds the hub, and the namespace.
func (r *rolls) open(cmd *cobra.Command) error {
	hub, namespace, err := hubAt(r.kubeconfig)
	if err != nil {
		return err
	}
	r.hub, r.out, r.errs = hub, cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !r.everywhere {
		r.namespace = cmp.Or(r.namespace, namespace)
	}
	return nil
}
