package sim

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	routev1 "github.com/openshift/api/route/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/zone"
)

// commands change the world or print something of it. Options are in brackets.
// After each command everybody says what there is to say; time passes with tick
// only.
//
// On the hub; an object is written anew each time, but keeps its age:
//
//	member NAME [region=R] [zone=Z] [networks=A,B] [taints=K] [drain] [leaves=RANGE,NAME,…]
//	edge NAME [region=R] [zone=Z] [networks=A,B] [addresses=IP,…] [pool=IP,IP~BIND,…] [drain]
//	class NAME [default] [config=C]
//	config NAME [edges=EDGE,…] [http=N] [https=N] [external] [ondemand] [alone] [leaf]   alone: with addresses of its own; leaf: members serve it, and call its class of Gateways contour
//	zone NS/NAME DOMAIN [namespaces=NS,…]
//	ingress NS/NAME [class=C] [default=SERVICE:PORT] [tls=SECRET@HOST,…;…] HOST/PATH->SERVICE:PORT…
//	    HOST=/PATH is exact; nothing behind "->" is a backend that is none; a
//	    HOST without a path is a rule without paths; * is no host
//	gatewayclass NAME [config=C]
//	release [VERSION [CHANNEL]]           which the definition of GatewayClasses says it is of
//	gateway NS/NAME [class=C] [sets=All|Same] [clients=[PORT:]CONFIGMAP[!],…] [client=SECRET] NAME:PROTOCOL:PORT[:HOST][@SECRET]…
//	    TLS without a SECRET ends at the backend; CONFIGMAP is "-" for a port that asks for none, and A+B for both
//	listenerset NS/NAME to=NS/GATEWAY NAME:PROTOCOL:PORT[:HOST][@SECRET]…
//	grpcroute NS/NAME to=… [hosts=…] SERVICE/METHOD->SERVICE:PORT…   as httproute
//	httproute NS/NAME [to=GATEWAY[/LISTENER],…] [sets=LISTENERSET[/LISTENER],…] [hosts=HOST,…] PATH->SERVICE:PORT…
//	tlsroute NS/NAME to=… [hosts=…] SERVICE:PORT[*WEIGHT]…   all is one rule; "none" is a Service that is not there
//	tcproute NS/NAME to=… SERVICE:PORT[*WEIGHT]…
//	udproute NS/NAME to=… SERVICE:PORT[*WEIGHT]…
//	authorities NS/NAME AUTHORITY…        a ConfigMap; without any, with nothing that is a certificate
//	identity NS/NAME AUTHORITY            a Secret with a certificate for clients
//	policy NS/NAME SERVICE host=HOST ca=CONFIGMAP   a BackendTLSPolicy
//	placement NS/NAME for=KIND/NAME,… [names=MEMBER,…] [count=N] [hold=DURATION]   a Placement
//	route NS/NAME [class=C] [tls=edge|reencrypt|passthrough] [insecure=Allow|Redirect] [port=P] [subdomain] [inline=NAME] HOST[/PATH]->SERVICE[*WEIGHT]+…
//	    one of OpenShift; inline: it has a certificate for NAME in itself
//	import NS/NAME PORT…                  a ServiceImport; ^SERVICE:PORT is one as a backend
//	secret NS/NAME HOST…                  with a certificate for these names
//	delete KIND NS/NAME                   or NAME
//
// In a member, whether its API answers or not:
//
//	pods MEMBER NS/NAME [app=PROTOCOL] [udp] [IP…]   a Service with port http, 80, and a slice with 8080; IP~ drains; udp: with port dns, 53, too
//	export MEMBER NS/NAME [gone]          a ServiceExport
//	gone MEMBER NS/NAME                   both are deleted
//	answers MEMBER well|not|part|lies     how its API answers; it is listed anew
//	leaf MEMBER NS/NAME [of=KIND] [at=ADDRESS,…] [says=REASON] [none]   what its syncer tells of the leaf of an Ingress, or of another kind
//	unleaf MEMBER NS/NAME [of=KIND]       it is gone
//	sites MEMBER up|down                  how the addresses of its leaves answer our probe
//	leads NAME [IP…]                      where a host name leads; to none: it can't be looked up
//	path EDGE MEMBER up|down|unknown      what proxies of the edge see of the member
//
// Proxies connect by themselves:
//
//	proxy EDGE/NODE [TEXT]                a new one, that holds nothing; TEXT is as in refuses
//	away EDGE/NODE, back EDGE/NODE        its stream; it keeps what it holds
//	refuses EDGE/NODE [TEXT]              it rejects what has TEXT in its name, * is everything; none: nothing any more
//	without EDGE/NODE                     it is gone
//
// The control plane:
//
//	tick DURATION
//	save                                  keep the checkpoint as it is now
//	restart [last|saved]                  a new process, without a checkpoint or from one
//
// What comes out:
//
//	get EDGE/NODE [METHOD] HOST/PATH [at=IP] [port=N] [tls=SNI]
//	holds EDGE/NODE PREFIX                names of what it holds
//	dns NAME…
//	status NS/NAME…                       addresses of Ingresses
//	condition MEMBER                      of a MemberCluster
//	placed NS/NAME                        why the status of a Placement has members chosen, or not
//	admitted NS/NAME…                     what the status of a Route says: its host, whether it is admitted, and why not
//	classes                               what GatewayClasses are told
//	findings [PREFIX]
var commands = map[string]func(*world, *args) (string, error){
	"member": (*world).join,
	"edge":   func(w *world, a *args) (string, error) { return "", w.put("edges", a.edge()) },
	"class":  func(w *world, a *args) (string, error) { return "", w.put("ingressclasses", a.class()) },
	"config": func(w *world, a *args) (string, error) { return "", w.put("gatewayclassconfigs", a.config()) },
	"zone":   func(w *world, a *args) (string, error) { return "", w.put("dnszones", a.zone()) },
	"secret": func(w *world, a *args) (string, error) { return "", w.put("secrets", a.secret()) },
	"ingress": func(w *world, a *args) (string, error) {
		o := a.ingress()
		if old := w.published(o.Namespace + "/" + o.Name); old != nil { // a user's edit leaves the status alone
			for _, address := range old {
				o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, loadBalancer(address))
			}
		}
		return "", w.put("ingresses", o)
	},
	"gatewayclass": func(w *world, a *args) (string, error) { return "", w.put("gatewayclasses", a.gatewayClass()) },
	"release":      func(w *world, a *args) (string, error) { return "", w.put("customresourcedefinitions", a.release()) },
	"gateway":      func(w *world, a *args) (string, error) { return "", w.put("gateways", a.gateway()) },
	"listenerset":  func(w *world, a *args) (string, error) { return "", w.put("listenersets", a.listenerSet()) },
	"grpcroute":    func(w *world, a *args) (string, error) { return "", w.put("grpcroutes", a.grpcRoute()) },
	"httproute":    func(w *world, a *args) (string, error) { return "", w.put("httproutes", a.httpRoute()) },
	"tlsroute":     func(w *world, a *args) (string, error) { return "", w.put("tlsroutes", a.tlsRoute()) },
	"tcproute":     func(w *world, a *args) (string, error) { return "", w.put("tcproutes", a.tcpRoute()) },
	"udproute":     func(w *world, a *args) (string, error) { return "", w.put("udproutes", a.udpRoute()) },
	"route": func(w *world, a *args) (string, error) {
		o := a.route()
		if old, ok := w.hub["routes"][o.Namespace+"/"+o.Name].(*routev1.Route); ok {
			o.Status = old.Status
		}
		return "", w.put("routes", o)
	},
	"authorities": func(w *world, a *args) (string, error) { return "", w.put("configmaps", a.authorities()) },
	"identity":    func(w *world, a *args) (string, error) { return "", w.put("secrets", a.identity()) },
	"placement":   func(w *world, a *args) (string, error) { return "", w.put("placements", a.placement()) },
	"policy":      func(w *world, a *args) (string, error) { return "", w.put("backendtlspolicies", a.policy()) },
	"import":      func(w *world, a *args) (string, error) { return "", w.put("serviceimports", a.serviceImport()) },
	"export": func(w *world, a *args) (string, error) {
		change := w.putIn
		if a.Has("gone") {
			change = w.removeIn
		}
		return "", change(model.Member(a.Word(0)), a.export())
	},
	"delete": func(w *world, a *args) (string, error) {
		name := a.Word(1)
		if !strings.Contains(name, "/") {
			name = "/" + name
		}
		return "", w.remove(plurals[a.Word(0)], name)
	},
	"pods":    (*world).pods,
	"gone":    (*world).gone,
	"answers": (*world).answers,
	"leaf": func(w *world, a *args) (string, error) {
		state := model.LeafState{Reason: cmp.Or(a.Options["says"], "Applied"), There: !a.Has("none"), Addresses: model.TextsOf(a.List("at"))}
		var claims []string
		for _, host := range a.List("claimed") {
			claims = append(claims, model.LeafClaim{Host: host, Kind: "Ingress", Namespace: "theirs", Name: "web"}.Text())
		}
		state.Claimed = model.TextsOf(claims)
		w.plane.Told(a.leafID(), &state)
		return "", nil
	},
	"unleaf": func(w *world, a *args) (string, error) {
		w.plane.Told(a.leafID(), nil)
		return "", nil
	},
	"sites": func(w *world, a *args) (string, error) {
		v := probe.Verdict{Health: model.Down, Since: w.now, Why: "timeout"}
		if a.Word(1) == "up" {
			v = probe.Verdict{Health: model.Up, Since: w.now}
		}
		w.plane.ProbedSites(model.Member(a.Word(0)), v)
		return "", nil
	},
	"leads": func(w *world, a *args) (string, error) {
		var to []netip.Addr
		for _, text := range a.Rest(1) {
			to = append(to, netip.MustParseAddr(text))
		}
		if len(to) > 0 {
			w.plane.Resolved(a.Word(0), to)
		}
		return "", nil
	},
	"path": func(w *world, a *args) (string, error) {
		at := path{model.Edge(a.Word(0)), model.Member(a.Word(1))}
		delete(w.paths, at)
		if how := a.Word(2); how != "unknown" {
			w.paths[at] = how == "up"
		}
		w.report()
		return "", nil
	},
	"proxy": func(w *world, a *args) (string, error) {
		edge, node, _ := strings.Cut(a.Word(0), "/")
		if old := w.proxies[a.Word(0)]; old != nil {
			old.disconnect()
		}
		p := newProxy(edge, node)
		p.refuses = strings.Join(a.Rest(1), " ")
		w.proxies[a.Word(0)] = p
		return "", nil
	},
	"away":    onProxy(func(p *proxy, _ *args) { p.away = true; p.disconnect() }),
	"back":    onProxy(func(p *proxy, _ *args) { p.away = false }),
	"refuses": onProxy(func(p *proxy, a *args) { p.refuses = strings.Join(a.Rest(1), " ") }),
	"without": func(w *world, a *args) (string, error) {
		p, err := w.proxy(a.Word(0))
		if err != nil {
			return "", err
		}
		p.disconnect()
		delete(w.proxies, a.Word(0))
		return "", nil
	},
	"tick": func(w *world, a *args) (string, error) {
		d, err := time.ParseDuration(a.Word(0))
		if err != nil {
			return "", err
		}
		return "", w.tick(d)
	},
	"save":    func(w *world, _ *args) (string, error) { return "", w.save() },
	"restart": func(w *world, a *args) (string, error) { return "", w.restart(strings.Join(a.Words, "")) },

	"get":   (*world).get,
	"holds": (*world).holds,
	"dns": func(w *world, a *args) (string, error) {
		return a.each(func(name string) (string, error) {
			r, err := w.resolve(name, zone.TypeA)
			return r.String(), err
		})
	},
	"status": func(w *world, a *args) (string, error) {
		return a.each(func(name string) (string, error) {
			return cmp.Or(strings.Join(w.published(name), " "), "none"), nil
		})
	},
	"condition": (*world).condition,
	"placed":    (*world).placed,
	"admitted":  func(w *world, a *args) (string, error) { return a.each(w.admitted) },
	"classes":   func(w *world, _ *args) (string, error) { return w.gatewayClasses(), nil },
	"findings":  func(w *world, a *args) (string, error) { return w.findings(strings.Join(a.Words, " ")), nil },
}

// options are those that commands know. Other words count by their order.
var options = map[string][]string{
	"member":  {"region", "zone", "networks", "taints", "drain", "staleafter", "leaves"},
	"edge":    {"region", "zone", "networks", "addresses", "pool", "hops", "drain"},
	"class":   {"default", "config"},
	"config":  {"edges", "http", "https", "external", "ondemand", "alone", "zones", "leaf"},
	"zone":    {"namespaces", "delegates"},
	"ingress": {"class", "default", "tls"},

	"gatewayclass": {"config"},
	"gateway":      {"class", "sets", "clients", "client"},
	"listenerset":  {"to"},
	"httproute":    {"to", "sets", "hosts"},
	"grpcroute":    {"to", "sets", "hosts"},
	"tlsroute":     {"to", "sets", "hosts"},
	"tcproute":     {"to"},
	"udproute":     {"to"},
	"policy":       {"host", "ca"},
	"route":        {"class", "tls", "insecure", "port", "subdomain", "inline"},
	"placement":    {"for", "names", "count", "hold"},
	"pods":         {"app", "udp"},
	"export":       {"gone"},
	"leaf":         {"of", "at", "says", "none", "claimed"},
	"unleaf":       {"of"},
	"get":          {"at", "port", "tls"},
}

// prints are the commands that only look.
var prints = []string{"get", "holds", "dns", "status", "condition", "placed", "admitted", "classes", "findings"}

// plurals are the resources of kinds, as in delete.
var plurals = map[string]string{
	"member": "memberclusters", "edge": "edges", "class": "ingressclasses", "config": "gatewayclassconfigs",
	"release": "customresourcedefinitions", "zone": "dnszones", "secret": "secrets", "ingress": "ingresses",
	"gatewayclass": "gatewayclasses", "gateway": "gateways", "listenerset": "listenersets", "httproute": "httproutes", "grpcroute": "grpcroutes", "tlsroute": "tlsroutes", "tcproute": "tcproutes", "udproute": "udproutes",
	"authorities": "configmaps", "policy": "backendtlspolicies", "placement": "placements", "route": "routes", "import": "serviceimports",
}

// do carries out one line, and returns what it prints.
func (w *world) do(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return "", nil
	}
	command, ok := commands[words[0]]
	if !ok {
		return "", fmt.Errorf("no command %q", words[0])
	}
	a := &args{fleettest.Parse(words[1:], options[words[0]]...)}
	said, err := command(w, a)
	if err = cmp.Or(err, a.Err); err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	if slices.Contains(prints, words[0]) {
		return said, nil
	}
	if err := w.settle(); err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	return said, nil
}

func (w *world) proxy(name string) (*proxy, error) {
	if p := w.proxies[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no proxy %s", name)
}

func onProxy(f func(*proxy, *args)) func(*world, *args) (string, error) {
	return func(w *world, a *args) (string, error) {
		p, err := w.proxy(a.Word(0))
		if err == nil {
			f(p, a)
		}
		return "", err
	}
}

// join makes or changes a member. A new one is connected to; its status stays.
func (w *world) join(a *args) (string, error) {
	o := a.member()
	old, was := w.hub["memberclusters"]["/"+o.Name].(*v1alpha1.MemberCluster)
	if was {
		o.Status = old.Status
	}
	if err := w.put("memberclusters", o); err != nil || was {
		return "", err
	}
	return "", w.contact(model.Member(o.Name))
}

func (w *world) pods(a *args) (string, error) {
	id := model.Member(a.Word(0))
	service, slice := a.service()
	if err := w.putIn(id, service); err != nil {
		return "", err
	}
	return "", w.putIn(id, slice)
}

func (w *world) gone(a *args) (string, error) {
	id := model.Member(a.Word(0))
	service, slice := a.service()
	if err := w.removeIn(id, slice); err != nil {
		return "", err
	}
	return "", w.removeIn(id, service)
}

func (w *world) answers(a *args) (string, error) {
	how, ok := map[string]answering{"well": well, "not": notAtAll, "part": inPart, "lies": withLies}[a.Word(1)]
	if !ok {
		return "", fmt.Errorf("nobody answers %q", a.Word(1))
	}
	return "", w.answer(model.Member(a.Word(0)), how)
}

// get prints who may answer a request: the endpoints and their members, or the
// status that the proxy answers with.
func (w *world) get(a *args) (string, error) {
	p, err := w.proxy(a.Word(0))
	if err != nil {
		return "", err
	}
	words := a.Rest(1)
	if len(words) == 1 {
		words = []string{"GET", words[0]}
	}
	host, uri, _ := strings.Cut(words[1], "/")
	q := routetest.Request{Method: words[0], Host: host, Path: "/" + uri, At: a.Options["at"], Port: int(a.Number("port", 80))}
	if sni, ok := a.Options["tls"]; ok {
		q.TLS, q.SNI, q.Port = true, strings.TrimPrefix(sni, "-"), int(a.Number("port", 443))
	}
	return w.ask(p, q)
}

// ask prints what becomes of a request.
func (w *world) ask(p *proxy, q routetest.Request) (string, error) {
	out, lacks, err := p.route(q, w.greet)
	if err != nil {
		return "", err
	}
	text := w.text(out)
	if len(lacks) > 0 {
		text += ": " + strings.Join(lacks, ", ")
	}
	return text + "\n", nil
}

func (w *world) text(out routetest.Outcome) string {
	switch {
	case out.Refused:
		return "refused"
	case out.Location != "":
		return fmt.Sprintf("%d:%s", out.Status, out.Location)
	case len(out.Endpoints) == 0:
		return strconv.Itoa(int(out.Status))
	}
	by := map[string][]string{}
	for _, at := range out.Endpoints {
		ip, _, _ := strings.Cut(at, ":")
		name := w.nameOf(ip)
		by[name] = append(by[name], ip)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, name+" "+strings.Join(by[name], ","))
	}
	return strings.Join(parts, " ")
}

func (w *world) holds(a *args) (string, error) {
	p, err := w.proxy(a.Word(0))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.content())) {
		if strings.HasPrefix(name, strings.Join(a.Rest(1), " ")) {
			out.WriteString(name + "\n")
		}
	}
	return out.String(), nil
}
