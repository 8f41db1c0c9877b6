package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

const (
	// retryUnsent are failures after which no backend can have acted on the
	// request: it was not sent, or the backend says so (RFC 9113, 8.7).
	retryUnsent = "refused-stream,reset-before-request"
	// retrySafe has all failures without an answer, retryUnsent's among them: a
	// backend may have acted, which a safe method permits (RFC 9110, 9.2.1).
	retrySafe = "reset,retriable-status-codes"
	// retries after the first attempt. With previousPriorities the second
	// attempt already leaves the tier of the first.
	retries = 3
)

// safeMethods matches the methods that retrySafe is for.
var safeMethods = &routev3.HeaderMatcher{
	Name: ":method",
	HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "GET|HEAD|OPTIONS"}},
	}},
}

// A retry goes where the failed attempts did not: to a priority that was not
// tried, since a whole member may be lost, and in it to an endpoint that was
// not tried. Every host says so twice, so the names are short: Envoy finds an
// extension by the type of its configuration.
var (
	previousPriorities = &routev3.RetryPolicy_RetryPriority{
		Name: "p",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: pack(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 1}),
		},
	}
	previousHosts = &routev3.RetryPolicy_RetryHostPredicate{
		Name: "h",
		ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
			TypedConfig: pack(&hostsv3.PreviousHostsPredicate{}),
		},
	}
)

func retry(on string) *routev3.RetryPolicy {
	return &routev3.RetryPolicy{
		RetryOn:                       on,
		NumRetries:                    wrapperspb.UInt32(retries),
		RetryPriority:                 previousPriorities,
		RetryHostPredicate:            []*routev3.RetryPolicy_RetryHostPredicate{previousHosts},
		HostSelectionRetryMaxAttempts: 5,
		// The next attempt goes elsewhere, so there is nothing to wait for.
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(5 * time.Millisecond)}, // and 50 ms at most
	}
}

// retryAny is for every method.
func retryAny() *routev3.RetryPolicy { return retry(retryUnsent) }

// retryWhatIsSafe is for safe methods. When the per-try timeout passes without
// a response, the request is also sent elsewhere (hedging); the first attempt
// goes on, so a slow answer is late for nobody.
func retryWhatIsSafe(t model.Timing) (*routev3.RetryPolicy, *routev3.HedgePolicy) {
	p := retry(retrySafe)
	p.RetriableStatusCodes = []uint32{502, 503}
	if t.PerTryTimeout <= 0 {
		return p, nil
	}
	p.PerTryTimeout = millis(t.PerTryTimeout)
	return p, &routev3.HedgePolicy{HedgeOnPerTryTimeout: true}
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
