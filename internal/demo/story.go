package demo

import (
	"context"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab"
)

// plot is a story, and the fleet that it is told of.
type plot struct {
	story   []chapter // told in this order; each begins and ends with a whole fleet
	spec    func() lab.Spec
	members []string
	clients map[string]client // who asks DNS
	onHub   []byte            // what users have written there before it begins
	whole   func(*fleet, context.Context) error
	is      string                              // what the fleet consists of
	again   func(*fleet, context.Context) error // undoes what a failed chapter left
	tries   func(*fleet) [][2]string            // command lines for who tries more, and what they show
}

// chapter is a part of the story.
type chapter struct {
	name  string
	does  string // what happens
	holds string // what must hold
	vital bool   // without it nothing else makes sense
	tell  func(context.Context, *fleet, *scene) error
}

// edgePlot is the story of `spillway demo`: Envoys on edges serve.
var edgePlot = plot{
	story: edgeStory, spec: lab.DefaultSpec, members: members, clients: clients, onHub: examples.Shop, whole: (*fleet).whole,
	is: "a hub, 3 members, 2 edges and the control plane", again: (*fleet).shopAgain, tries: (*fleet).edgeTries,
}

var edgeStory = []chapter{
	{
		name: "ready", vital: true, tell: func(ctx context.Context, f *fleet, s *scene) error { return f.raise(ctx, s) },
		does:  "A hub, three member clusters, two Envoy edges and the control plane start; the examples are applied.",
		holds: "Requests are answered at both edges by the nearest member.",
	}, {
		name: "nearest", tell: tellNearest,
		does:  "Clients ask both edges over HTTP and HTTPS, and DNS from near both.",
		holds: "The nearest member answers, DNS names the nearest edge, the Ingress's status lists both.",
	}, {
		name: "gateway", tell: tellGateway,
		does:  "A Gateway with an address of its own at each edge, and an HTTPRoute, are applied beside the Ingress; then they are deleted.",
		holds: "The Gateway is programmed, DNS names its nearest address, the nearest member answers; the Ingress fails no request.",
	}, {
		name: "scale", tell: tellScale,
		does:  "The Deployment in eu-1 is scaled up by one pod, and back.",
		holds: "The new pod serves; no request fails.",
	}, {
		name: "rollout", tell: tellRollout,
		does:  "All pods of all members are replaced, as `kubectl rollout restart` does.",
		holds: "No request fails.",
	}, {
		name: "edit", tell: tellEdit,
		does:  "A host and a path are added to the Ingress, then taken away.",
		holds: "Both edges serve it; no request fails.",
	}, {
		name: "member", tell: tellMember,
		does:  "Member us-1 leaves the fleet and joins it again.",
		holds: "Others answer meanwhile; no request fails.",
	}, {
		name: "refuse", tell: tellRefuse,
		does:  "The data path to eu-1 is cut: packets to it are answered with resets. Then it is healed.",
		holds: "eu-2 answers; DNS stays; no safe request fails, others only if sent before the loss was known.",
	}, {
		name: "drop", tell: tellDrop,
		does:  "The data path to eu-1 is cut: packets vanish silently. Then it is healed.",
		holds: "eu-2 answers; DNS stays; no safe request fails, others only if sent before the loss was known.",
	}, {
		name: "member-api", tell: tellMemberAPI,
		does:  "The API of eu-1 is cut, its pods still serve.",
		holds: "Nothing is pushed, no status flaps, no request fails.",
	}, {
		name: "edge", tell: tellEdge,
		does:  "Edge eu is killed, then started again.",
		holds: "DNS moves to edge us and back; edge us fails no request.",
	}, {
		name: "hub", tell: tellHub,
		does:  "The hub is killed, then started again.",
		holds: "Nothing is pushed, no request fails.",
	}, {
		name: "serve", tell: tellServe(noOutage),
		does:  "The control plane is killed and started.",
		holds: "The edges lose nothing, are sent next to nothing, and fail no request.",
	}, {
		name: "serve-no-hub", tell: tellServe(hubOutage),
		does:  "The control plane is killed and started while the hub is down.",
		holds: "The same: it goes on from its checkpoint.",
	}, {
		name: "serve-no-member", tell: tellServe(memberOutage),
		does:  "The control plane is killed and started while the API of eu-1 is cut.",
		holds: "The same: what it knew of eu-1 stays.",
	}, {
		name: "restored", tell: tellRestored,
		does:  "Everything is looked at once more.",
		holds: "All is as at first, and no process has crashed.",
	},
}

func (p *plot) names() []string {
	out := make([]string, len(p.story))
	for i, c := range p.story {
		out[i] = c.name
	}
	return out
}
