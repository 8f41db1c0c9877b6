package ingest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// mostBody is how much of a body a proxy holds while somebody is asked about the
// request: 8 MiB. Clients who are not known yet fill that memory.
const mostBody = 8 << 20

// auth reads who is asked whether a request may go on, and reports whether all that is
// written there can be done. If not, no request of the rule may go on: a route is not to
// be open for a mistake in what protects it.
func (in *httpRoute) auth(field model.Field, f *gatewayv1.HTTPExternalAuthFilter, k *model.FiltersKey) bool {
	if k.Auth != (model.Auth{}) {
		in.noAuth(field, fmt.Errorf("the rule has another filter of this type: leave one"))
		return false
	}
	out := model.Auth{Backend: in.backend(field+".backendRef", f.BackendRef)}
	ok := out.Backend != (model.Backend{})
	for _, part := range []struct {
		at   string
		read func() error
	}{
		{".protocol", func() error { return spokenBy(f, &out) }},
		{".http.path", func() (err error) { out.Path, err = authPath(f.HTTPAuthConfig); return err }},
		{sends[f.ExternalAuthProtocol == gatewayv1.HTTPRouteExternalAuthGRPCProtocol], func() (err error) { out.Send, err = headerNames(sent(f), nil); return err }},
		{".http.allowedResponseHeaders", func() (err error) { out.Take, err = headerNames(taken(f), settable); return err }},
		{".forwardBody.maxSize", func() (err error) { out.Body, err = bodyOf(f.ForwardBody); return err }},
	} {
		if err := part.read(); err != nil {
			in.noAuth(field+model.Field(part.at), err)
			ok = false
		}
	}
	if ok {
		k.Auth = out
	}
	return ok
}

// noAuth tells the owner of a rule that it serves nobody, for what asks whether it may.
func (in *httpRoute) noAuth(field model.Field, err error) {
	in.refuse(field, "%v; requests are answered %d", err, failed)
}

// spokenBy reads how the backend is asked.
func spokenBy(f *gatewayv1.HTTPExternalAuthFilter, out *model.Auth) error {
	switch p := f.ExternalAuthProtocol; {
	case p == gatewayv1.HTTPRouteExternalAuthHTTPProtocol && f.GRPCAuthConfig == nil:
	case p == gatewayv1.HTTPRouteExternalAuthGRPCProtocol && f.HTTPAuthConfig == nil:
		out.Calls = true
	case p == gatewayv1.HTTPRouteExternalAuthHTTPProtocol, p == gatewayv1.HTTPRouteExternalAuthGRPCProtocol:
		return fmt.Errorf("it is %s, and what is written is of the other protocol: leave out one", p)
	default:
		return fmt.Errorf("%q is not known: set HTTP or GRPC", p)
	}
	return nil
}

// authPath is what goes before the path of a request.
func authPath(c *gatewayv1.HTTPAuthConfig) (string, error) {
	if c == nil || c.Path == "" {
		return "", nil
	}
	return strings.TrimRight(c.Path, "/"), absolute(c.Path)
}

// sends are where it is written which headers are sent, by whether it is to a server of
// gRPC.
var sends = map[bool]string{false: ".http.allowedHeaders", true: ".grpc.allowedHeaders"}

// sent are the headers of a request that are asked about.
func sent(f *gatewayv1.HTTPExternalAuthFilter) []string {
	switch {
	case f.GRPCAuthConfig != nil:
		return f.GRPCAuthConfig.AllowedRequestHeaders
	case f.HTTPAuthConfig != nil:
		return f.HTTPAuthConfig.AllowedRequestHeaders
	}
	return nil
}

// taken are the headers of an answer that a backend sees.
func taken(f *gatewayv1.HTTPExternalAuthFilter) []string {
	if f.HTTPAuthConfig == nil {
		return nil
	}
	return f.HTTPAuthConfig.AllowedResponseHeaders
}

// headerNames reads names of headers, in lower case, sorted.
func headerNames(all []string, check func(string) error) (model.Packed[string], error) {
	var out []string
	for _, name := range all {
		if !token.MatchString(name) || strings.Contains(name, "*") {
			return "", fmt.Errorf("%q is no name of a header, and patterns are not known: name each", name)
		}
		if check != nil {
			if err := check(name); err != nil {
				return "", err
			}
		}
		out = append(out, strings.ToLower(name))
	}
	slices.Sort(out)
	return model.PackedOf(slices.Compact(out)...), nil
}

var ofOneMessage = regexp.MustCompile("^(?:" + model.OfOneMessage + ")$")

// settable checks the name of a header that a request gets of another message.
func settable(name string) error {
	if ofOneMessage.MatchString(strings.ToLower(name)) {
		return fmt.Errorf("header %q says how one message is sent, and is not for another: leave it out", name)
	}
	return header(name, "")
}

// bodyOf reads how much of a body is sent.
func bodyOf(c *gatewayv1.ForwardBodyConfig) (uint32, error) {
	switch {
	case c == nil:
		return 0, nil
	case c.MaxSize < 0 || c.MaxSize > mostBody:
		return 0, fmt.Errorf("%d is not from 0 to %d", c.MaxSize, mostBody)
	}
	return uint32(c.MaxSize), nil
}
