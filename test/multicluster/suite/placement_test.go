package suite

import (
	"fmt"
	"strings"
)

var placement = []test{
	{
		name:        "PlacementOneMember",
		description: "A backend that one member has alone is served from there, whichever member that is.",
		kinds:       both,
		run:         placementOneMember,
	},
	{
		name:        "PlacementAllMembers",
		description: "Of a backend that all members have, all requests are answered by members with ready endpoints; one without gets none.",
		kinds:       both,
		run:         placementAllMembers,
	},
	{
		name:        "PlacementMoves",
		description: "A member that gets a backend later serves it when the one that had it loses it, and no request fails.",
		kinds:       both,
		run:         placementMoves,
	},
}

func placementOneMember(w *world) {
	address := w.gateway()
	var rules []string
	for _, m := range w.members {
		name := "in-" + m.name
		w.offers(name, m)
		rules = append(rules, fmt.Sprintf("{matches: [{path: {type: PathPrefix, value: /%s}}], backendRefs: [%s]}", m.name, w.ref(name)))
	}
	w.route("each", "["+strings.Join(rules, ", ")+"]")
	w.accepted("each")
	w.resolved("each")
	for _, m := range w.members {
		r := request{address: address, path: "/" + m.name}
		w.answers(r, from("in-"+m.name, m))
		w.always(r, from("in-"+m.name, m), many)
	}
}

// many are enough to see a member that should not be asked, and is now and then.
const many = 50

func placementAllMembers(w *world) {
	empty, rest := w.members[0], w.members[1:]
	w.offers("web", w.members...)
	w.scale(0, "web", empty)
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.accepted("web")
	w.resolved("web")
	w.answers(r, from("web", rest...))
	w.always(r, from("web", rest...), many)
}

func placementMoves(w *world) {
	had, gets := w.members[0], w.members[1]
	w.offers("web", had)
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.answers(r, from("web", had))
	load := w.trickle(r)
	w.offers("web", gets)
	w.withdraw(had, "web")
	w.answers(r, from("web", gets))
	w.resolved("web")
	load.noneFailed(from("web", had, gets))
}
