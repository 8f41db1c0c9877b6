package envoy

import (
	"fmt"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	taggingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ip_tagging/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// The walk of a request from a host that has no scope, or no route for it. Its steps are
// Lua, and Envoy has an interpreter for each filter with code, and for each thread one: 91
// KB. So the filters of a listener have none. The code is in one RouteConfiguration, of
// the scope "?", which all listeners of a proxy share. Who is not found is taken there
// first, by two filters that need no code: they put "?:" before the key. The filters that
// follow find the code in their route and each does a step, until one finds a host; for
// those behind it there is no code in the route any more.
//
// Envoy resolves the route before each filter, and once more for one that asks for its
// metadata; Envoy 1.40 does so only once a filter, so there is a filter for each step. The
// route's name tells whether there is one. Where a step finds nothing it goes back to "?".

// walkHost stands for the scope of the walk among the hosts of a listener's collection.
// No request is for it: all other keys have a "|".
const walkHost model.Host = "?"

// walker is the name of all filters of the walk, so that one entry takes them out.
const walker = "walk"

// fromElsewhere is what stands before the key of a request for another name than that of
// the handshake, on a port of listeners that are told apart: the walk begins with it. It
// looks at the names as they are written; the walk does at what they mean.
func fromElsewhere(port uint16) string {
	const host, sni = "request.host", "connection.requested_server_name"
	end := fmt.Sprintf(":%d", port)
	same := host + " == " + sni
	if port != 443 { // clients write it
		same += fmt.Sprintf(" || %[1]s.startsWith(%[2]s) && %[1]s.endsWith(%[3]q) && size(%[1]s) == size(%[2]s) + %[4]d", host, sni, end, len(end))
	}
	return "%CEL(" + same + ` ? "" : "` + string(walkHost) + `:")%`
}

// What follows "?:" is the step, then a ":", and what it is about: the table, a "|", and
// a host. A "d" before the step is for wildcards of any depth.
const (
	nextStep = `^%?:(d?)(%l?):(.*)`

	// The steps of a request, and those that a listener with wildcards of any depth has
	// more, and those of one whose connections are told apart.
	stepsFlat  = 2 // lower case; one label up, then the catch-all
	stepsDeep  = 3 // the index; the first and the second of what it names, then the third
	stepsApart = 2 // the listener; the host as it is
)

// walkCode does one step.
const walkCode = `function envoy_on_request(h)
  local headers = h:headers()
  local deep, step, at = headers:get("` + scopeHeader + `"):match("` + nextStep + `")
  if not at then return end
  at = at:match("^(.*),` + mark + `$") or at
  local function to(key)
    headers:replace("` + scopeHeader + `", key)
    h:clearRouteCache()
  end
  local function found(key)
    to(key)
    h:metadata()
    return h:streamInfo():routeName() ~= ""
  end
  local function try(key, step, at)
    if not found(key) then to("` + string(walkHost) + `:" .. deep .. step .. ":" .. at) end
  end
  if step == "" and at:sub(1, 2) == "` + string(walkHost) + `:" then
    at = at:sub(3)
    local table, host = at:match("^([^|]*|)([^:]*)")
    local sni = h:streamInfo():requestedServerName():lower()
    step = "h"
    if host:lower() ~= sni then
      headers:replace("` + nameHeader + `", sni)
      local here = found(table .. "` + string(namesHost) + `")
      headers:remove("` + nameHeader + `")
      if not here then
        h:respond({[":status"] = "421"}, "the connection is for another host\n")
        return
      end
      to("` + string(walkHost) + `:" .. deep .. step .. ":" .. at)
      return
    end
  end
  local table, host = at:match("^([^|]*|)(.*)")
  if step == "h" then
    try(at, "", at)
    return
  end
  if step == "" then
    local name = host:match("^[^:]*")
    host = name:lower()
    if host ~= name then
      try(table .. host, "u", table .. host)
      return
    end
    step = "u"
  end
  if step == "u" then
    local parent = host:match("%.(.*)")
    if not parent then
      to(table .. "*")
    elseif deep ~= "" then
      try(table .. "*." .. parent, "i", at)
    elseif not found(table .. "*." .. parent) then
      to(table .. "*")
    end
    return
  end
  if step == "i" then
    found(table .. "` + string(indexHost) + `")
    local tried = h:streamInfo():routeName()
    if tried == "" then
      to(table .. "*")
    else
      to("` + string(walkHost) + `:" .. deep .. "f:" .. table .. tried .. ":*")
    end
    return
  end
  local first, rest = host:match("^([^:]*):(.*)")
  if step == "f" and rest:find(":", 1, true) then
    try(table .. first, "s", table .. rest)
  elseif not found(table .. first) then
    to(table .. rest)
  end
end`

// walksIn are the scopes of the walk in some collections: one with each listener that
// may use it, there or not, so that it leaves with the last.
func walksIn(all []model.Collection) []fleet.HostIn {
	var out []fleet.HostIn
	for _, c := range all {
		if c.Kind() == model.Sockets && listenerPort(c).Traffic == model.Requests {
			out = append(out, fleet.HostIn{In: c, Host: walkHost})
		}
	}
	return out
}

// walkers are the filters of a listener for it.
func walkers(p port) []*hcmv3.HttpFilter {
	deep, steps := "", stepsFlat
	if p.Deep {
		deep, steps = "d", steps+stepsDeep
	}
	if p.TellsApart() {
		steps += stepsApart
	}
	begin := &mutatev3.HeaderMutation{Mutations: &mutatev3.Mutations{RequestMutations: []*mutationv3.HeaderMutation{
		overwritten(scopeHeader, string(walkHost)+":"+deep+":%REQ("+scopeHeader+")%"),
	}}}
	out := []*hcmv3.HttpFilter{walkerOf(begin), walkerOf(routeAnew)}
	for range steps {
		out = append(out, walkerOf(&luav3.Lua{}))
	}
	return out
}

// routeAnew has Envoy look for the scope again: a filter that marks requests by the
// client's address, all of them. The mark comes behind the key, where the first step leaves
// it out. (set_filter_state can do so alone, from Envoy 1.39.)
var routeAnew = &taggingv3.IPTagging{
	IpTags: []*taggingv3.IPTagging_IPTag{{IpTagName: mark, IpList: []*corev3.CidrRange{
		{AddressPrefix: "0.0.0.0", PrefixLen: wrapperspb.UInt32(0)}, {AddressPrefix: "::", PrefixLen: wrapperspb.UInt32(0)},
	}}},
	IpTagHeader: &taggingv3.IPTagging_IpTagHeader{Header: scopeHeader, Action: taggingv3.IPTagging_IpTagHeader_APPEND_IF_EXISTS_OR_ADD},
}

// mark is what a request is marked with. No host has a ",".
const mark = "anew"

func walkerOf(m message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: walker, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(m)}}
}

// walk is the RouteConfiguration of the walk but for its name. Its route serves nothing.
var walk = func() *index {
	code := &luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_SourceCode{
		SourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: walkCode}},
	}}
	c := &routev3.RouteConfiguration{
		VirtualHosts: []*routev3.VirtualHost{{Name: walker, Domains: []string{"*"}, Routes: []*routev3.Route{
			{Name: walker, Match: match(model.Everything), Action: nothing.Action},
		}}},
		RequestHeadersToRemove: []string{scopeHeader},
		TypedPerFilterConfig:   map[string]*anypb.Any{walker: brief(code)},
		ValidateClusters:       wrapperspb.Bool(false), // there are none
	}
	mustBeValid(c)
	return &index{encode(c)}
}()
