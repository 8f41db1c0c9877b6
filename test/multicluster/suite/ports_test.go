package suite

var ports = []test{
	{
		name:        "PortsOfEachMember",
		description: "A port's number is resolved by each member's own Service: pods of one port may listen elsewhere in each.",
		kinds:       both,
		run:         portsOfEachMember,
	},
}

func portsOfEachMember(w *world) {
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	for i, m := range w.members {
		w.must(w.deploy(m, "web", 1, listens+i))
		w.must(w.serve(m, "web", onePort(listens+i)))
	}
	for _, m := range w.members {
		w.alone("web", m)
		w.answers(r, from("web", m))
	}
}
