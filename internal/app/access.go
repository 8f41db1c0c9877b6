package app

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/ui"
)

// hubAccess asks the hub whose token it is (TokenReview) and whether its owner
// may get the path (SubjectAccessReview of a nonResourceURL), as for a kubelet
// or a metrics endpoint.
func hubAccess(hub *rest.Config) (ui.Access, error) {
	client, err := kubernetes.NewForConfig(hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return func(ctx context.Context, token, path string) error {
		who, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("the hub can't be asked about the token: %w", err)
		}
		if !who.Status.Authenticated {
			return errors.New("the hub does not know this token")
		}
		user := who.Status.User
		extra := map[string]authorizationv1.ExtraValue{}
		for k, v := range user.Extra {
			extra[k] = authorizationv1.ExtraValue(v)
		}
		may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("the hub can't be asked about access: %w", err)
		}
		if !may.Status.Allowed {
			return fmt.Errorf("%s may not get %s: bind a ClusterRole with nonResourceURLs [%q] and verb get", user.Username, path, path)
		}
		return nil
	}, nil
}
