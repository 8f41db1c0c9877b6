package fleettest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Commands returns the commands of every world. Options are in brackets, and
// an object is written anew each time, but keeps its age: the order in which
// objects were first made.
//
//	member NAME [region=R] [zone=Z] [at=LAT,LON] [networks=A,B] [labels=k:v,…] [taints=K or K=V,…] [drain] [leaving] [seen] [age=N] [unread] [leaves=RANGE or NAME,…] [orphans]
//	    a member, and, unless unread, that its rows were read
//	cut MEMBER / heal MEMBER              its API
//	lose MEMBER                           all that was read of it, as after a restart without a checkpoint
//	drain / undrain MEMBER or EDGE
//	edge NAME [region=R] [zone=Z] [at=LAT,LON] [networks=A,B] [labels=k:v,…] [addresses=IP or name,…] [drain]
//	class NAME [default] [config=C] [age=N]
//	front NAME [deep] [continues] [names=EDGE,…] [http=N] [https=N] [own] [age=N]
//	    a class of another kind; a host "**.NAME" of its roots is a wildcard of any depth
//	config NAME [edges=SELECTOR] [names=EDGE,…] [http=N] [https=N] [zones=NS/NAME,…] [external] [ondemand] [connect=MS] [leaf[=CLASS] [gateways=CLASS] [annotations=NAME,…] [in=MEMBER:CLASS or MEMBER:KEY~VALUE,…]]
//	ingress NS/NAME [class=C] [age=N] [default=SERVICE:PORT] [tls=SECRET or SECRET@HOST,…]… [published=IP,…] [ours] [full [labels=K:V,…] [annotations=K:V,…]] [HOST]PATH->SERVICE:PORT…
//	    full: with its manifest, of which leaves are made
//	    HOST! names a host for which no rule is valid; a PATH after "=" is exact: shop.example=/login->auth:80; more tls= options are separated by ";"
//	route NS/NAME HOST[/PATH] SERVICE:PORT[*WEIGHT]+… [class=C] [age=N] [over=both, http, https, moved, passed or passedmoved] [tls=SECRET or self] [reencrypt] [ca=TEXT] [subdomain] [refused=REASON] [published=TEXT]
//	    a Route of OpenShift; a PORT may be podsNUMBER, or pods for the only one
//	gatewayclass NAME [config=C]
//	gateway NS/NAME [full] [class=C] [age=N] [client=[NS/]SECRET] [clients=[PORT:][NS/]BUNDLE[!],PORT:-,…] [addresses=IP or any[@SCOPE],…] NAME:PROTOCOL:PORT[:HOST][,from=Same, All or a selector][,secret=[NS/]NAME][,pass][,refused=REASON]…
//	httproute NS/NAME [full] to=NS/GATEWAY[/LISTENER][:PORT],… [hosts=H,…] [age=N] [broken=REASON] MATCHES->SERVICE:PORT[*WEIGHT]+…
//	    "?" is a backend that is not valid
//	grpcroute|tlsroute|tcproute|udproute …  as httproute
//	namespace NAME [KEY=VALUE]…
//	grant NS KIND@NS KIND[/NAME]          a ReferenceGrant
//	release [VERSION [CHANNEL]]           of the Gateway API on the hub; without any, it does not say
//	bundle NS/NAME [TEXT]                 a ConfigMap with certificates of authorities; without text, bad ones; of NS "-" a ClusterTrustBundle
//	tlspolicy NS/NAME SERVICE[:PORT]… [host=H] [names=N,…] [ca=NAME,…] [system] [broken=REASON] [refused=REASON] [age=N] [full]
//	placement NS/NAME [for=KIND or KIND/NAME,…] [selector=K=V] [names=M,…] [count=N] [hold=SECONDS] [tolerate=K, K=V or *,…] [broken] [age=N] [waves=K~V,… [pause=SECONDS]]
//	    "namespace" is the Placement's own; without for= it is for that
//	secret NS/NAME NAME… [problem=TEXT] [to=MEMBER,… or *] [chain=TEXT]   a certificate for these names, and which members may have its key
//	heldkey MEMBER NS/NAME COPY REASON [none] [DETAIL]   what became of a copy of a Secret; - for REASON: it is gone
//	service MEMBER NS/NAME [headless] [external=NAME] [NAME]:NUMBER[/PROTOCOL][+APPPROTOCOL]…
//	export MEMBER NS/NAME [age=N]         a ServiceExport; a backend ^SERVICE:PORT is a ServiceImport
//	import NS/NAME [NAME]:NUMBER…         a ServiceImport that is written on the hub, with ports as of a service
//	slice MEMBER NS/NAME NAME [PORT]=NUMBER[/UDP],… ENDPOINT…      an ENDPOINT is IP[@ZONE][~], ~ drains
//	pods MEMBER NS/NAME ENDPOINT…         a Service with port http, 80, and one slice with 8080
//	report EDGE/PROXY MEMBER FAILING/CANARIES, or - for none
//	streams EDGE CONNECTED[/SYNCED]       also 0; - for no row
//	contact MEMBER REASON [hidden=WORD] MESSAGE…   how its API answers
//	zone NS/NAME DOMAIN [namespaces=NS,…]
//	remember [until=N] [over]             which addresses classes have, and which they have left: until N, or, over, no more
//	keep [since=N] [over]                 who has places that Placements hold; who lacks the Service does so since N, or, over, for too long
//	ack EDGE HOST [class=C], unack        HOST * is the host that nobody names
//	leafstate MEMBER NS/NAME REASON [of=KIND] [says=TYPE:STATUS:REASON:MESSAGE,… of a parent NS/NAME or a listener LISTENER after "@"] [at=ADDRESS,…] [none] [dropped=F,…] [altered=F,…] [diff=F,…] [edition=ID] [behind] [claimed=HOST:KIND:NS/NAME,…] [MESSAGE…]   what became of a leaf; REASON - for no row
//	problem KIND NS/NAME REASON MESSAGE…
//	delete KIND NAME                      member, edge, zone, class, front, config, ingress, route, secret, gatewayclass, gateway, httproute, grpcroute, tlsroute, tcproute, udproute, bundle, tlspolicy, placement, release, import; service, slice and export with MEMBER in front
//	await MEMBER                          it may have been read before
//	outdated MEMBER                       its rows are of an old checkpoint
//	is MEMBER CLUSTER                     which cluster it is
//	expired NS/NAME                       its certificate is over
//	secretspaces [NS…]                    whose Secrets are read; none: of all
//	stale MEMBER                          it has been away for longer than its staleAfter
//	overdue MEMBER                        its rows were waited for long enough
//	guard HOST:PORT WHAT IP,…             no endpoint may be it; - for no row
//	portion N                             of rows that can wait, that a commit evaluates; 0: all
//	step                                  a commit of nothing but such rows
//	reach EDGE CLASS HOST                 print how the edge serves the host
//	commit                                what was staged
//	print TABLE [PREFIX]                  see Print; any other name is a table of the graph
func Commands() map[string]Command {
	return map[string]Command{
		"member": member, "cut": cut, "heal": heal, "lose": lose,
		"await":        note(func(in *fleet.Inputs) *inc.Table[model.Member, model.There] { return in.Awaited }),
		"outdated":     note(func(in *fleet.Inputs) *inc.Table[model.Member, model.There] { return in.Outdated }),
		"stale":        note(func(in *fleet.Inputs) *inc.Table[model.Member, model.There] { return in.Stale }),
		"overdue":      note(func(in *fleet.Inputs) *inc.Table[model.Member, model.There] { return in.Overdue }),
		"expired":      expired,
		"secretspaces": secretSpaces,
		"drain":        drain(true), "undrain": drain(false),
		"edge": edge, "class": class, "front": front, "config": config, "ingress": ingress, "route": openShift, "secret": secret,
		"gatewayclass": gatewayClass, "gateway": gateway, "listenerset": listenerSet,
		"httproute": route("HTTPRoute"), "grpcroute": route("GRPCRoute"), "tlsroute": route("TLSRoute"), "tcproute": route("TCPRoute"), "udproute": route("UDPRoute"), "namespace": namespace, "grant": grant,
		"release": release, "bundle": bundle, "tlspolicy": tlsPolicy, "placement": placement,
		"contact": contact, "zone": zone, "is": is,
		"export": export, "import": imports,
		"service": service, "slice": slice, "pods": pods, "report": report, "streams": streams,
		"leafstate": leafState, "heldkey": heldKey,
		"ack": ack(true), "unack": ack(false), "problem": problem, "delete": remove,
		"remember": remember, "keep": keep, "guard": guard, "portion": portion, "step": step, "reach": reach,
		"commit": func(w *World, _ []string) (string, error) { w.Commit(); return "", nil },
		"print":  Print,
	}
}

func member(w *World, words []string) (string, error) {
	a := Parse(words, append(placeOptions, "networks", "labels", "taints", "drain", "leaving", "forced", "seen", "age", "unread", "ranges", "leaves", "orphans", "spaces")...)
	id := model.Member(a.Word(0))
	spec := model.MemberSpec{
		Created: a.Number("age", w.age("member "+string(id))), Place: a.place(), Networks: a.List("networks", "default"),
		Labels: a.labels(), Taints: a.List("taints"), Drain: a.Has("drain"), Leaving: a.Has("leaving"), Forced: a.Has("forced"), Seen: a.Has("seen"),
		Leaves: a.leafAddresses(), Orphans: a.Has("orphans"),
	}
	for _, s := range a.List("spaces") { // HUB:MEMBER, sorted
		of, as, _ := strings.Cut(s, ":")
		spec.Spaces = append(spec.Spaces, model.Space{Of: of, As: as})
	}
	for _, s := range a.List("ranges") {
		spec.Fenced = true
		if p, err := netip.ParsePrefix(s); err == nil { // one that can't be read allows nothing
			spec.PodRanges = append(spec.PodRanges, p)
		}
	}
	slices.SortFunc(spec.PodRanges, netip.Prefix.Compare)
	w.specs.members[id] = spec
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Members.Set(tx, id, spec)
		if !a.Has("unread") {
			w.Program.In.Sources.Set(tx, id, model.Source{Connected: true})
			w.Program.In.Contacts.Set(tx, id, model.Contact{Reason: "Connected"})
		}
	})
	return "", a.Err
}

func source(w *World, words []string, s model.Source, c model.Contact) (string, error) {
	a := Parse(words)
	id := model.Member(a.Word(0))
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Sources.Set(tx, id, s)
		w.Program.In.Contacts.Set(tx, id, c)
	})
	return "", a.Err
}

func cut(w *World, words []string) (string, error) {
	return source(w, words, model.Source{StaleSince: 1000}, model.Contact{Reason: "Unreachable", Message: "its API does not answer"})
}

func heal(w *World, words []string) (string, error) {
	return source(w, words, model.Source{Connected: true}, model.Contact{Reason: "Connected"})
}

// note says something of a member by a row that is there.
func note(table func(*fleet.Inputs) *inc.Table[model.Member, model.There]) Command {
	return func(w *World, words []string) (string, error) {
		a := Parse(words)
		id, in := model.Member(a.Word(0)), table(&w.Program.In)
		if slices.Equal(a.Rest(1), []string{"-"}) {
			w.Stage(func(tx *inc.Tx) { in.Delete(tx, id) })
		} else {
			w.Stage(func(tx *inc.Tx) { in.Set(tx, id, model.There{}) })
		}
		return "", a.Err
	}
}

func expired(w *World, words []string) (string, error) {
	a := Parse(words)
	s := a.service(a.Word(0), "")
	id := model.SecretID{Namespace: s.Namespace(), Name: s.Name()}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Expired.Set(tx, id, model.There{}) })
	return "", a.Err
}

func secretSpaces(w *World, words []string) (string, error) {
	read := model.TextsOf(slices.Sorted(slices.Values(words)))
	w.Stage(func(tx *inc.Tx) {
		if len(words) == 0 {
			w.Program.In.SecretSpaces.Delete(tx, model.All{})
			return
		}
		w.Program.In.SecretSpaces.Set(tx, model.All{}, inc.ValOf(read))
	})
	return "", nil
}

func is(w *World, words []string) (string, error) {
	a := Parse(words)
	id, cluster := model.Member(a.Word(0)), model.ClusterID(a.Word(1))
	w.Stage(func(tx *inc.Tx) { w.Program.In.Clusters.Set(tx, id, inc.ValOf(cluster)) })
	return "", a.Err
}

func lose(w *World, words []string) (string, error) {
	a := Parse(words)
	id := model.Member(a.Word(0))
	w.Stage(func(tx *inc.Tx) {
		in := w.Program.In
		in.Sources.Delete(tx, id)
		for _, k := range in.Services.Keys() {
			if k.Member == id {
				in.Services.Delete(tx, k)
			}
		}
		for _, k := range in.Slices.Keys() {
			if k.Member == id {
				in.Slices.Delete(tx, k)
			}
		}
	})
	return "", a.Err
}

func contact(w *World, words []string) (string, error) {
	a := Parse(words, "hidden")
	id, row := model.Member(a.Word(0)), model.Contact{Reason: a.Word(1), Message: strings.Join(a.Rest(2), " "), Hidden: a.Options["hidden"]}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Contacts.Set(tx, id, row) })
	return "", a.Err
}

func zone(w *World, words []string) (string, error) {
	a := Parse(words, "namespaces")
	s := a.service(a.Word(0), "")
	spec := model.ZoneSpec{Domain: model.Host(a.Word(1)), Namespaces: a.List("namespaces"), Origin: model.Origin{
		Created: w.age("zone " + s.String()), Object: model.Object{Kind: "DNSZone", Namespace: s.Namespace(), Name: s.Name()},
	}}
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Zones.Set(tx, model.ZoneID{Namespace: s.Namespace(), Name: s.Name()}, spec)
	})
	return "", a.Err
}

func drain(on bool) Command {
	return func(w *World, words []string) (string, error) {
		a := Parse(words)
		name := a.Word(0)
		m, isMember := w.specs.members[model.Member(name)]
		e, isEdge := w.specs.edges[model.Edge(name)]
		m.Drain, e.Drain = on, on
		switch {
		case isMember:
			w.specs.members[model.Member(name)] = m
			w.Stage(func(tx *inc.Tx) { w.Program.In.Members.Set(tx, model.Member(name), m) })
		case isEdge:
			w.specs.edges[model.Edge(name)] = e
			w.Stage(func(tx *inc.Tx) { w.Program.In.Edges.Set(tx, model.Edge(name), e) })
		default:
			a.Fail("there is no member or edge %s", name)
		}
		return "", a.Err
	}
}

func edge(w *World, words []string) (string, error) {
	a := Parse(words, append(placeOptions, "networks", "labels", "addresses", "pool", "hops", "drain")...)
	id := model.Edge(a.Word(0))
	spec := model.EdgeSpec{Labels: a.labels(), Place: a.place(), Networks: a.List("networks", "default"), Drain: a.Has("drain"), TrustedHops: uint8(a.Number("hops", 0))}
	for _, s := range a.List("addresses") {
		if ip, err := netip.ParseAddr(s); err == nil {
			spec.Addresses = append(spec.Addresses, ip)
		} else {
			spec.Hostnames = append(spec.Hostnames, s)
		}
	}
	slices.SortFunc(spec.Addresses, netip.Addr.Compare)
	for _, s := range a.List("pool") {
		s, scope, _ := strings.Cut(s, "@")
		s, asked := strings.CutSuffix(s, "!")
		public, bind, _ := strings.Cut(s, "~")
		ip, err := netip.ParseAddr(public)
		on, otherwise := netip.ParseAddr(cmp.Or(bind, public))
		if err != nil || otherwise != nil {
			a.Fail("%s: use ADDRESS or ADDRESS~ADDRESS, with a ! behind it for one that is given on request, and @SCOPE", s)
		}
		spec.Pool = append(spec.Pool, model.PoolEntry{PoolAddress: model.PoolAddress{Address: ip, Bind: on}, OnRequest: asked, Scope: scope})
	}
	slices.SortFunc(spec.Pool, model.PoolEntry.Compare)
	w.specs.edges[id] = spec
	w.Stage(func(tx *inc.Tx) { w.Program.In.Edges.Set(tx, id, spec) })
	return "", a.Err
}

func class(w *World, words []string) (string, error) {
	a := Parse(words, "default", "config", "age")
	id := model.Class(a.Word(0))
	spec := model.ClassSpec{
		Origin:  model.Origin{Created: a.Number("age", w.age("class "+string(id))), Object: id.Object()},
		Default: a.Has("default"), Config: model.Config(a.Options["config"]),
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Classes.Set(tx, id, spec) })
	return "", a.Err
}

func front(w *World, words []string) (string, error) {
	a := Parse(words, "deep", "continues", "names", "http", "https", "own", "age")
	id := model.Class(a.Word(0))
	row := fleet.ClassInfo{Config: w.Program.Defaults, Deep: a.Has("deep"), Continues: a.Has("continues")}
	row.Spec.Origin = model.Origin{Created: a.Number("age", w.age("class "+string(id))), Object: model.Object{Kind: "Front", Namespace: "fronts", Name: string(id)}}
	row.Config.HTTPPort, row.Config.HTTPSPort = uint16(a.Number("http", 80)), uint16(a.Number("https", 443))
	row.Config.Own = a.Has("own")
	for _, e := range a.List("names") {
		row.Edges = append(row.Edges, model.Edge(e))
	}
	slices.Sort(row.Edges)
	w.Stage(func(tx *inc.Tx) { w.Fronts.Set(tx, id, row) })
	return "", a.Err
}

func config(w *World, words []string) (string, error) {
	a := Parse(words, "edges", "names", "http", "https", "zones", "external", "own", "ondemand", "connect", "leaf", "leaftls", "gateways", "annotations", "in", "global")
	id := model.Config(a.Word(0))
	spec := model.ConfigSpec{
		Edges: a.Options["edges"], EdgeNames: a.List("names"), ExternalNames: a.Has("external"), OnDemand: a.Has("ondemand"), Own: a.Has("own"),
		HTTPPort: uint16(a.Number("http", 80)), HTTPSPort: uint16(a.Number("https", 443)),
		Timing: model.Timing{ConnectTimeout: a.Number("connect", 0)}, Leaf: a.leafSpec(), Global: a.Has("global"),
	}
	for _, z := range a.List("zones") {
		s := a.service(z, "")
		spec.Zones = append(spec.Zones, model.ZoneID{Namespace: s.Namespace(), Name: s.Name()})
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Configs.Set(tx, id, spec) })
	return "", a.Err
}

// remember has the program know later which addresses classes have now, and which
// they have left: until some time, or, if that is "over", no more.
func remember(w *World, words []string) (string, error) {
	a := Parse(words, "until", "over")
	w.Commit()
	last := w.Program.In.Tenures
	w.Stage(func(tx *inc.Tx) {
		for _, k := range last.Keys() {
			last.Delete(tx, k)
		}
		for _, k := range w.Program.Tenures.Keys() {
			t, _ := w.Program.Tenures.Get(nil, k)
			if t.Left && a.Has("over") {
				continue
			}
			if t.Left && t.Until == 0 {
				t.Until = a.Number("until", 1)
			}
			last.Set(tx, k, t.Tenure)
		}
	})
	return "", a.Err
}

func secret(w *World, words []string) (string, error) {
	a := Parse(words, "problem", "to", "chain")
	s := a.service(a.Word(0), "")
	c := model.Certificate{Chain: []byte("chain of " + s.String()), Key: []byte("key"), Names: a.Rest(1)}
	if c.To = model.TextsOf(a.List("to")); a.Has("chain") {
		c.Chain = []byte(a.Options["chain"])
	}
	if problem := a.Options["problem"]; problem != "" {
		c = model.Certificate{Problem: problem}
	}
	w.Stage(func(tx *inc.Tx) {
		w.Program.In.Certificates.Set(tx, model.SecretID{Namespace: s.Namespace(), Name: s.Name()}, c)
	})
	return "", a.Err
}

func service(w *World, words []string) (string, error) {
	a := Parse(words, "headless", "external")
	id := model.MemberService{Service: a.service(a.Word(1), ""), Member: model.Member(a.Word(0))}
	spec := model.ServiceSpec{External: a.Options["external"]}
	switch {
	case a.Has("headless"):
		spec.Kind = model.ServiceHeadless
	case a.Has("external"):
		spec.Kind = model.ServiceExternal
	}
	spec.Ports = a.ports(2)
	w.Stage(func(tx *inc.Tx) { w.Program.In.Services.Set(tx, id, spec) })
	return "", a.Err
}

// ports reads the words from the n-th on: [NAME]:NUMBER[/PROTOCOL][+APPPROTOCOL].
func (a *Args) ports(n int) (out []model.ServicePort) {
	for _, text := range a.Rest(n) {
		text, app, _ := strings.Cut(text, "+")
		text, protocol, _ := strings.Cut(text, "/")
		name, number, _ := strings.Cut(text, ":")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			a.Fail("%w", err)
		}
		out = append(out, model.ServicePort{Name: name, Number: int32(n), Protocol: cmp.Or(protocol, "TCP"), AppProtocol: app})
	}
	return out
}

func export(w *World, words []string) (string, error) {
	a := Parse(words, "age")
	id := model.MemberService{Service: a.service(a.Word(1), ""), Member: model.Member(a.Word(0))}
	row := model.Export{Created: a.Number("age", w.age("export "+id.String()))}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Exports.Set(tx, id, row) })
	return "", a.Err
}

func imports(w *World, words []string) (string, error) {
	a := Parse(words)
	s := a.service(a.Word(0), "")
	spec := model.ImportSpec{Ports: a.ports(1)}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Imports.Set(tx, importOf(s), spec) })
	return "", a.Err
}

func importOf(s model.Service) model.Object {
	return model.Object{Kind: model.ImportKind, Namespace: s.Namespace(), Name: s.Name()}
}

func slice(w *World, words []string) (string, error) {
	a := Parse(words)
	id := model.SliceID{
		MemberService: model.MemberService{Service: a.service(a.Word(1), ""), Member: model.Member(a.Word(0))},
		Name:          a.Word(2),
	}
	var row model.Slice
	for _, text := range strings.Split(a.Word(3), ",") {
		name, number, _ := strings.Cut(text, "=")
		number, protocol, _ := strings.Cut(number, "/")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			a.Fail("%w", err)
		}
		row.Ports = append(row.Ports, model.SlicePort{Name: name, Number: uint16(n), UDP: protocol == "UDP"})
	}
	var all []model.Endpoint
	for _, text := range a.Rest(4) {
		all = append(all, a.endpoint(text))
	}
	slices.SortFunc(all, func(a, b model.Endpoint) int { return a.Addr.Compare(b.Addr) })
	row.Endpoints = model.EndpointsOf(all...)
	w.Stage(func(tx *inc.Tx) { w.Program.In.Slices.Set(tx, id, row) })
	return "", a.Err
}

func pods(w *World, words []string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("member and service are missing")
	}
	if _, err := service(w, []string{words[0], words[1], "http:80"}); err != nil {
		return "", err
	}
	return slice(w, append([]string{words[0], words[1], "only", "http=8080"}, words[2:]...))
}
