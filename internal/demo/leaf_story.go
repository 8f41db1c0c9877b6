package demo

import (
	"context"
	"fmt"
	"os"

	"github.com/spillway-dev/spillway/internal/lab"
)

// The fleet of `spillway demo leaf`: a member for each region, without edges.
const (
	leafHost   = "leaf.shop.example"
	leafRoot   = "leaf" // the Ingress
	leafNamed  = "us-1" // has a host name for an address
	leafApart  = "ap-1" // has no route to the others
	leafCut    = "eu-1" // is cut off
	leafLBName = "us-1.lb.example.net"

	leafRouteHost = "route.leaf.shop.example"
)

var leafMembers = []string{"eu-1", "us-1", "ap-1"}

// leafPlot is the story of `spillway demo leaf`: controllers of members serve.
var leafPlot = plot{
	story: leafStory, spec: leafSpec, members: leafMembers, clients: leafClients, whole: (*fleet).leafWhole,
	is:    "a hub, 3 members with Contour and the control plane",
	again: func(*fleet, context.Context) error { return nil }, tries: (*fleet).leafTries,
}

func leafSpec() lab.Spec {
	s := lab.Spec{
		Hub: true, Register: true,
		Members: []lab.MemberSpec{
			{Name: leafMembers[0], Region: "eu", Zones: []string{"eu-a"}, Latitude: 50.11, Longitude: 8.68, Contour: true},
			{Name: leafNamed, Region: "us", Zones: []string{"us-a"}, Latitude: 39.04, Longitude: -77.49, Contour: true, ContourName: leafLBName},
			{Name: leafApart, Region: "ap", Zones: []string{"ap-a"}, Latitude: 1.35, Longitude: 103.82, Contour: true, Apart: true},
		},
	}
	for i := range s.Members {
		s.Members[i].ContourGateway = namespace + "/" + leafRoot
	}
	return s
}

var leafStory = []chapter{
	{
		name: "ready", vital: true, tell: func(ctx context.Context, f *fleet, s *scene) error { return f.raise(ctx, s) },
		does:  "A hub, three members that run Contour, and the control plane start; each member has a Deployment and its Service.",
		holds: "All members are read, their pods and their Contour are ready.",
	}, {
		name: "leaves", tell: tellLeaves,
		does:  "An Ingress whose class members serve is applied on the hub.",
		holds: "Each member has one leaf; the status lists what each calls its address; a request to each is answered by a pod there.",
	}, {
		name: "global", tell: tellLeafGlobal,
		does:  "The GlobalIngress of the Ingress is read, which controllers of DNS and of load balancers go by.",
		holds: "It has the host and all members, each serving at what it calls its address.",
	}, {
		name: "dns", tell: tellLeafDNS,
		does:  "Clients near each member ask DNS for the host, and then the first address that they are told.",
		holds: "It is the near member's, also where that has a name in its place; a pod there answers.",
	}, {
		name: "edit", tell: tellLeafEdit,
		does:  "A host is added to the Ingress, then taken away.",
		holds: "Each leaf is written once for each edit; no request for the other host fails.",
	}, {
		name: "service", tell: tellLeafService,
		does:  "A member loses the Service, and has it again.",
		holds: "Its leaf and its address go and return; the others' stay and fail no request.",
	}, {
		name: "data", tell: tellLeafData,
		does:  "A member's data path is cut: packets vanish silently. Then it is healed.",
		holds: "DNS leaves the member and returns; leaves and statuses stay, the others fail no request.",
	}, {
		name: "api", tell: tellLeafAPI,
		does:  "A member's API is cut and the Ingress edited meanwhile.",
		holds: "The others have the edit at once; the lost one keeps its leaf, its address and serves on, and has the edit once it is back.",
	}, {
		name: "serve", tell: tellLeafServe,
		does:  "The control plane is killed and started, and the Ingress edited.",
		holds: "The start writes nothing, each leaf is written once for the edit; no request fails.",
	}, {
		name: "route", tell: tellLeafRoute,
		does:  "A Gateway whose class members serve, and an HTTPRoute, are applied beside the Ingress; then they are deleted.",
		holds: "Each member has a leaf of both; the Gateway's status lists all addresses; a request to each is answered by a pod there.",
	}, {
		name: "delete", tell: tellLeafDelete,
		does:  "The Ingress is deleted.",
		holds: "No member has a leaf, none serves the host; the GlobalIngress is gone.",
	}, {
		name: "restored", tell: tellLeafRestored,
		does:  "Everything is looked at once more.",
		holds: "There are no findings, and no process has crashed.",
	},
}

// leafTries is what there is to try with leaves.
func (f *fleet) leafTries() [][2]string {
	kubectl := func(of ...string) string { return "kubectl --kubeconfig " + f.shown(of...) }
	at := f.lab.IngressAddress(leafCut)
	return [][2]string{
		{kubectl("hub.kubeconfig") + " apply -f examples/leaf.yaml", "an Ingress that members serve"},
		{fmt.Sprintf("curl --resolve %s:8080:%s http://%s:8080/", leafHost, at, leafHost), "through Contour of " + leafCut},
		{kubectl("hub.kubeconfig") + " -n " + namespace + " get ingress", "the merged status"},
		{kubectl("members", leafCut+".kubeconfig") + " -n " + namespace + " get ingress -o yaml", "a leaf"},
		{fmt.Sprintf("%s lab --dir %s cut %s api", os.Args[0], f.shown(), leafCut), "break it; `heal " + leafCut + "` mends it"},
		{fmt.Sprintf("%s lab --dir %s status", os.Args[0], f.shown()), "all processes and faults"},
	}
}
