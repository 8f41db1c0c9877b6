package ingest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	routev1 "github.com/openshift/api/route/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// The annotations of Routes that OpenShift's router reads.
const (
	haproxyPrefix     = "haproxy.router.openshift.io/"
	routerPrefix      = "router.openshift.io/"
	annotationTimeout = haproxyPrefix + "timeout"
	annotationRewrite = haproxyPrefix + "rewrite-target"
	annotationHSTS    = haproxyPrefix + "hsts_header"
)

// routeProtections are those by which the router keeps clients out or slows them down.
// Without them nobody is let in.
var routeProtections = []string{
	haproxyPrefix + "ip_allowlist", haproxyPrefix + "ip_whitelist", haproxyPrefix + "rate-limit-connections",
	haproxyPrefix + "rate-limit-connections.concurrent-tcp", haproxyPrefix + "rate-limit-connections.rate-http", haproxyPrefix + "rate-limit-connections.rate-tcp",
	haproxyPrefix + "pod-concurrent-connections",
}

// filters reads what is done with requests.
func (in *openShift) filters(o *routev1.Route, over model.Over) model.Filters {
	k := model.FiltersKey{Over: over}
	var left, unprotected []string
	for _, name := range slices.Sorted(maps.Keys(o.Annotations)) {
		value := strings.TrimSpace(o.Annotations[name])
		read, known := routeAnnotations[name]
		switch {
		case !strings.HasPrefix(name, haproxyPrefix) && !strings.HasPrefix(name, routerPrefix):
		case slices.Contains(routeProtections, name):
			if !slices.Contains(off, strings.ToLower(value)) {
				unprotected = append(unprotected, name)
			}
		case known && !over.Passes():
			read(in, model.Field("metadata.annotations["+name+"]"), value, &k)
		default:
			left = append(left, name)
		}
	}
	const field = "metadata.annotations"
	if len(unprotected) > 0 {
		const what = "edges do not keep clients out as these say, so the Route is not served: %s; protect the pods otherwise, and take them away"
		in.unsupported(field, what, strings.Join(unprotected, ", "))
		in.note(reasonNotServed, field, what, strings.Join(unprotected, ", "))
	}
	if len(left) > 0 {
		in.Warning(field, model.ReasonUnsupported, "annotations of OpenShift's router that are not served here: %s", strings.Join(left, ", "))
	}
	in.headers(o.Spec.HTTPHeaders, over, &k)
	return k.Filters()
}

// routeAnnotations are those that are served.
var routeAnnotations = map[string]func(*openShift, model.Field, string, *model.FiltersKey){
	annotationTimeout: (*openShift).timeout,
	annotationRewrite: (*openShift).rewrite,
	annotationHSTS:    (*openShift).strict,
}

// haproxyTime is a time as HAProxy writes it.
var haproxyTime = regexp.MustCompile("^([0-9]{1,12})(us|ms|s|m|h|d)?$")

var haproxyUnits = map[string]time.Duration{
	"us": time.Microsecond, "": time.Millisecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// longestTimeout is as long as a proxy waits, and HAProxy, too.
const longestTimeout = (1<<31 - 1) * time.Millisecond

// timeout reads for how long an answer is waited for.
func (in *openShift) timeout(field model.Field, value string, k *model.FiltersKey) {
	m := haproxyTime.FindStringSubmatch(value)
	if m == nil {
		in.invalid(field, "%q is no time: write such as 500ms, 30s or 5m; until then the timeout is the usual one", value)
		return
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	unit := haproxyUnits[m[2]]
	most := int64(longestTimeout / unit)
	k.Timeouts.Backend = max(1, int64(time.Duration(min(n, most))*unit/time.Millisecond))
}

// rewrite reads what the path of the Route is for the pods.
func (in *openShift) rewrite(field model.Field, value string, k *model.FiltersKey) {
	if err := absolute(value); err != nil {
		in.refuse(reasonInvalid, field, "%v", err)
		return
	}
	k.Rewrite = model.Rewrite{Path: prefix(value), Prefix: true}
}

// strictTransport is the name of RFC 6797.
const strictTransport = "Strict-Transport-Security"

// hstsValue is what such a header may say.
var hstsValue = regexp.MustCompile(`^(?i)\s*max-age\s*=\s*"?[0-9]+"?\s*(;\s*(includeSubDomains|preload)\s*)*;?\s*$`)

// strict reads for how long browsers ask for the host over TLS alone.
func (in *openShift) strict(field model.Field, value string, k *model.FiltersKey) {
	switch {
	case !hstsValue.MatchString(value):
		in.invalid(field, "%q is no value of %s: write such as max-age=31536000;includeSubDomains; until then there is no such header", value, strictTransport)
	case in.spec.TLS == nil:
		in.Warning(field, model.ReasonUnsupported, "the Route is not served over TLS, where alone browsers read such a header: set spec.tls")
	default:
		k.Response.Set = with(k.Response.Set, model.Header{Name: strictTransport, Value: value})
	}
}

func with(all model.Packed[model.Header], one model.Header) model.Packed[model.Header] {
	return model.PackedOf(append(all.List(), one)...)
}

// headers reads changes of headers.
func (in *openShift) headers(all *routev1.RouteHTTPHeaders, over model.Over, k *model.FiltersKey) {
	if all == nil {
		return
	}
	if over.Passes() {
		in.refuse(reasonInvalid, "spec.httpHeaders", "edges do not read what clients encrypt for the pods: leave it out, or set another termination")
		return
	}
	in.changes("spec.httpHeaders.actions.request", all.Actions.Request, &k.Request)
	in.changes("spec.httpHeaders.actions.response", all.Actions.Response, &k.Response)
}

func (in *openShift) changes(field model.Field, list []routev1.RouteHTTPHeader, out *model.HeaderChanges) {
	for i, h := range list {
		at := field.Index(i)
		var value string
		set := h.Action.Type == routev1.Set && h.Action.Set != nil
		if set {
			value = h.Action.Set.Value
		}
		err := header(h.Name, value)
		switch {
		case strings.EqualFold(h.Name, "host"):
			in.refuse(reasonInvalid, at, "header %q can't be changed: pods see the host that is asked for", h.Name)
		case err != nil:
			in.refuse(reasonInvalid, at, "%v", err)
		case set && strings.Contains(strings.ReplaceAll(value, "%%", ""), "%"):
			in.unsupported(at+".action.set.value", "values that are computed are not supported: the header is left as it is; write a text, with %%%% for each %%")
		case set:
			out.Set = with(out.Set, model.Header{Name: h.Name, Value: strings.ReplaceAll(value, "%%", "%")})
		case h.Action.Type == routev1.Delete:
			out.Remove = model.PackedOf(append(out.Remove.List(), h.Name)...)
		default:
			in.refuse(reasonInvalid, at+".action", "set type to Delete, or to Set along with set.value")
		}
	}
}
