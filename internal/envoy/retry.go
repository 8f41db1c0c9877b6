package envoy

import (
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

const (
	// retryUnsent are failures after which no backend can have acted on the
	// request: it was not sent, or the backend says so (RFC 9113, 8.7).
	retryUnsent = "refused-stream,reset-before-request"
	// retrySafe adds all failures without an answer, and answers of a gateway: a
	// backend may have acted, which a safe method permits (RFC 9110, 9.2.1).
	retrySafe    = retryReset + "," + retryAnswers
	retryReset   = "reset"
	retryAnswers = "retriable-headers"
	// retryCodes adds the codes of a rule, which are all: those of a cluster would
	// come on top of them, so that it names the answers of a gateway by a header.
	retryCodes = retryReset + ",retriable-status-codes"
	// retries after the first attempt. With previousPriorities the second
	// attempt already leaves the tier of the first.
	retries = 3
)

// safeMethods are the methods that retrySafe is for.
var safeMethods = []string{"GET", "HEAD", "OPTIONS"}

var isSafe = header(model.ValueMatch{Name: ":method", Value: strings.Join(safeMethods, "|"), Regex: true})

// A retry goes where the failed attempts did not: to a priority that was not
// tried, since a whole member may be lost, and in it to an endpoint that was
// not tried. Every cluster says so, so the names are short: Envoy finds an
// extension by the type of its configuration.
var (
	previousPriorities = &routev3.RetryPolicy_RetryPriority{
		Name: "p",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: brief(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 1}),
		},
	}
	previousHosts = &routev3.RetryPolicy_RetryHostPredicate{
		Name: "h",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
			TypedConfig: brief(&hostsv3.PreviousHostsPredicate{}),
		},
	}
)

// retryPolicy is that of every cluster, and so of all that is sent there
// (HttpProtocolOptions.retry_policy, since Envoy 1.37): a route says only what
// it adds. The policy of a cluster takes the place of a route's, but for the
// per-try timeout, which Envoy 1.40 reads from the route (TestSentAgain).
func retryPolicy() *routev3.RetryPolicy {
	return &routev3.RetryPolicy{
		RetryOn:                       retryUnsent,
		NumRetries:                    wrapperspb.UInt32(retries),
		RetryPriority:                 previousPriorities,
		RetryHostPredicate:            []*routev3.RetryPolicy_RetryHostPredicate{previousHosts},
		HostSelectionRetryMaxAttempts: 5,
		RetriableHeaders:              ofAGateway, // where the route says so
		// The next attempt goes elsewhere, so there is nothing to wait for.
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(5 * time.Millisecond)}, // and 50 ms at most
	}
}

// ofAGateway are the answers 502 and 503.
var ofAGateway = []*routev3.HeaderMatcher{{
	Name: ":status", HeaderMatchSpecifier: &routev3.HeaderMatcher_RangeMatch{RangeMatch: &typev3.Int64Range{Start: 502, End: 504}},
}}

// safely makes a route that of the safe methods, of what it takes. Its retries are those of the cluster
// and retrySafe, which Envoy adds for a header that it reads after a route's
// headers were set, and takes out again. A client can't send that header: the
// proxy removes it from every request that comes in.
//
// When the per-try timeout passes without a response, the request is also sent
// elsewhere (hedging); the first attempt goes on, so a slow answer is late for
// nobody. A rule's own timeout ends an attempt, and with it the request.
func safely(route *routev3.Route, own int64, t model.Timing) *routev3.Route {
	route.Match.Headers = append(route.Match.Headers, isSafe)
	on := retrySafe
	switch to := route.GetRoute(); {
	case own > 0:
		on = retryAnswers // an attempt that ends so counts as reset
	case own == 0 && t.PerTryTimeout > 0:
		to.RetryPolicy = &routev3.RetryPolicy{PerTryTimeout: millis(t.PerTryTimeout)}
		to.HedgePolicy = &routev3.HedgePolicy{HedgeOnPerTryTimeout: true}
	}
	route.RequestHeadersToAdd = append(route.RequestHeadersToAdd, addRetry[on])
	return route
}

// retried makes a route retry as its rule says, by headers as safely does: whatever
// its policy says, that of the cluster takes its place.
func retried(route *routev3.Route, retry model.Retry) *routev3.Route {
	on := retryReset
	if codes := retry.Codes.List(); len(codes) > 0 {
		on = retryCodes
		words := make([]string, len(codes))
		for i, code := range codes {
			words[i] = strconv.Itoa(int(code))
		}
		route.RequestHeadersToAdd = append(route.RequestHeadersToAdd, overwriting("x-envoy-retriable-status-codes", strings.Join(words, ",")))
	}
	route.RequestHeadersToAdd = append(route.RequestHeadersToAdd, addRetry[on], overwriting("x-envoy-max-retries", strconv.FormatUint(uint64(retry.Attempts), 10)))
	return route
}

const retryOn = "x-envoy-retry-on"

var addRetry = map[string]*corev3.HeaderValueOption{
	retrySafe: retryingOn(retrySafe), retryCodes: retryingOn(retryCodes), retryReset: retryingOn(retryReset), retryAnswers: retryingOn(retryAnswers),
}

func retryingOn(value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: retryOn, Value: value}}
}

func overwriting(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}
}

func millis(ms int64) *durationpb.Duration {
	return durationpb.New(time.Duration(ms) * time.Millisecond)
}

// fromADS says that a resource comes on the stream that this one came on.
func fromADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}
