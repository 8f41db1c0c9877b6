package cluster

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// What a connection to an API server may take. A watch that hears nothing is
// found dead by a ping, not by the minutes that a watch lasts.
const (
	dialTimeout   = 5 * time.Second
	tlsTimeout    = 5 * time.Second
	headerTimeout = 30 * time.Second // a list may take its time to begin
	pingAfter     = 10 * time.Second
	pingTimeout   = 5 * time.Second
	bufferSize    = 4 << 10
	headerTable   = 128 // bytes of headers that are sent once: requests are few, and members many
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	jsonType     = "application/json"
	userAgent    = "spillway"
)

var (
	gatewayAPI      = schema.GroupVersion(gatewayv1.GroupVersion)
	openShiftAPI    = routev1.GroupVersion
	multiclusterAPI = schema.GroupVersion(mcsv1beta1.GroupVersion)
)

// textual are groups of CRDs, which have no protobuf form.
var textual = []schema.GroupVersion{v1alpha1.GroupVersion, gatewayAPI, multiclusterAPI, openShiftAPI}

// kinds are the few that are read here.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme, gatewayv1.Install, certificatesv1.AddToScheme, mcsv1beta1.Install, routev1.Install,
	} {
		utilruntime.Must(add(s))
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return s
}()

var (
	codecs = serializer.NewCodecFactory(kinds)
	reader = reading(codecs.WithoutConversion(), kinds)
)

// api is the connection to one API server. It is ours alone: connections are
// not shared with other members, and can be closed.
type api struct {
	config    *rest.Config
	client    *http.Client
	transport *http.Transport
	budget    flowcontrol.RateLimiter // of requests while they fail
}

// dial prepares a connection; nothing is sent yet. A nil speed is any.
func dial(c *rest.Config, s *speed) (*api, error) {
	tlsConfig, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   tlsTimeout,
		ResponseHeaderTimeout: headerTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			MaxDecoderHeaderTableSize: headerTable, MaxEncoderHeaderTableSize: headerTable,
		},
		ReadBufferSize:      bufferSize,
		WriteBufferSize:     bufferSize,
		MaxIdleConnsPerHost: 2,
		// Headers of an API server are few.
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
		Proxy:                  proxyOf(c),
		DisableCompression:     c.DisableCompression,
	}
	wrapped, err := rest.HTTPWrappersForConfig(c, t)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return &api{config: c, client: &http.Client{Transport: bounded{wrapped, s}}, transport: t, budget: NewBudget()}, nil
}

// close drops idle connections; those in use go with their requests.
func (a *api) close() { a.transport.CloseIdleConnections() }

// group returns a client for one group of kinds.
func (a *api) group(gv schema.GroupVersion) (*rest.RESTClient, error) {
	c := rest.CopyConfig(a.config)
	c.GroupVersion = &gv
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = reader
	c.ContentType, c.AcceptContentTypes = protobufType, protobufType+","+jsonType
	if slices.Contains(textual, gv) {
		c.ContentType, c.AcceptContentTypes = jsonType, jsonType
	}
	c.QPS = -1 // a few watches need no limit; what repeats has its own back-off
	r, err := rest.RESTClientForConfigAndClient(c, a.client)
	if err != nil {
		return nil, fmt.Errorf("client for %v: %w", gv, err)
	}
	return r, nil
}

// host is where the API server is, without credentials that a URL may carry.
func (a *api) host() string {
	if u, err := url.Parse(a.config.Host); err == nil && u.Host != "" {
		return u.Host
	}
	return "the server"
}

// proxyOf is the proxy that a configuration names, else that of the environment.
func proxyOf(c *rest.Config) func(*http.Request) (*url.URL, error) {
	if c.Proxy != nil {
		return c.Proxy
	}
	return http.ProxyFromEnvironment
}
