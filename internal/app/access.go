package app

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/ui"
)

// What the hub said is remembered for a while, as Kubernetes' own servers do: a
// token that was revoked is good for as long as that.
const (
	tokenTTL = 10 * time.Second // who has a token, or that nobody has it
	allowTTL = 10 * time.Second
	denyTTL  = 10 * time.Second
)

// Who asks a hub that is away is told so soon, and the hub is not asked for ever.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// reviewTimeout is how long one question may take.
const reviewTimeout = 5 * time.Second

// Questions have a client of their own, so that they neither wait for statuses
// nor hold these up.
const (
	reviewQPS   = 50
	reviewBurst = 100
)

// hubAccess asks the hub whose token it is (TokenReview) and whether its owner
// may get the path (SubjectAccessReview of a nonResourceURL), as for a kubelet
// or a metrics endpoint.
func hubAccess(hub *rest.Config) (ui.Access, error) {
	config := rest.CopyConfig(hub)
	config.QPS, config.Burst = reviewQPS, reviewBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: &reviewBackoff, CacheTTL: tokenTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("who asks: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), WebhookRetryBackoff: &reviewBackoff, AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("who may ask: %w", err)
	}
	return func(r *http.Request) (code int, err error) {
		path := r.URL.Path
		resp, ok, err := who.AuthenticateRequest(r)
		switch { // 401 as well where the hub can't be asked: the library does not tell it apart, nor does an API server
		case err != nil:
			return http.StatusUnauthorized, fmt.Errorf("the hub does not say whose token this is: %w", err)
		case !ok:
			return http.StatusUnauthorized, errors.New("give a token of the hub: Authorization: Bearer …")
		}
		decision, _, err := may.Authorize(r.Context(), authorizer.AttributesRecord{User: resp.User, Verb: "get", Path: path})
		switch {
		case err != nil:
			return http.StatusServiceUnavailable, fmt.Errorf("the hub can't be asked about access: %w", err)
		case decision != authorizer.DecisionAllow:
			return http.StatusForbidden, fmt.Errorf("%s may not get %s: bind a ClusterRole with nonResourceURLs [%q] and verb get", resp.User.GetName(), path, path)
		}
		return http.StatusOK, nil
	}, nil
}
