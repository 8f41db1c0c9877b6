package main

import (
	"context"
	"errors"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/internal/lab"
)

// loss is a way in which a member's API is lost. Its pods go on.
type loss struct {
	name       string
	reason     string // of the member's condition Connected
	begin, end func(context.Context, *fleet) error
}

var heal = func(ctx context.Context, f *fleet) error { return f.lab.Heal(ctx, lost) }

var losses = []loss{
	{ // nobody listens
		"down", "Unreachable",
		func(ctx context.Context, f *fleet) error { return f.lab.KillMember(ctx, lost) }, heal,
	},
	{ // 403 to every list, while /readyz says that it is well
		"refused", "Unauthorized",
		func(ctx context.Context, f *fleet) error {
			return f.members[0].Delete(ctx, "ClusterRoleBinding", "", binding)
		},
		func(ctx context.Context, f *fleet) error { return write(ctx, f.members[0], bindingObject()) },
	},
	{ // connections are accepted, and then nothing
		"silent", "Unreachable",
		func(ctx context.Context, f *fleet) error { return f.lab.Cut(ctx, lost, lab.PartAPI, lab.ModeDrop) }, heal,
	},
}

// lessTrusted has `serve` come to the lost member as a user who may read what
// it needs, and not as the administrator, to whom nothing is refused.
func (f *fleet) lessTrusted(ctx context.Context) error {
	role, err := roleObject()
	if err != nil {
		return err
	}
	if err := errors.Join(write(ctx, f.members[0], role), write(ctx, f.members[0], bindingObject())); err != nil {
		return err
	}
	text, err := os.ReadFile(f.lab.MemberKubeconfig(lost))
	if err != nil {
		return err
	}
	k, err := clientcmd.Load(text)
	if err != nil {
		return err
	}
	for _, u := range k.AuthInfos {
		u.Impersonate = reader
	}
	if text, err = clientcmd.Write(*k); err != nil {
		return err
	}
	return f.hub.Patch(ctx, "Secret", lab.SystemNamespace, "member-"+lost, object{"stringData": object{"kubeconfig": string(text)}})
}
