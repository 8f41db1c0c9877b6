package main

import (
	"context"
	"fmt"
)

// reading is what members have beside what hosts refer to.
type reading struct {
	hosts, members int
	unnamed        int // Services of each member to which nothing refers
}

func (c reading) String() string {
	return fmt.Sprintf("%d hosts in %d members, each with %d Services more to which nothing refers", c.hosts, c.members, c.unnamed)
}

// measure reports rows and bytes of a member's Service with ten endpoints or five, that
// something refers to, its Ingress included, and of one to which nothing does.
func (c reading) measure(ctx context.Context, out *figures) error {
	few := size{hosts: c.hosts, endpoints: perHost, members: c.members}
	more, beside := few, few
	more.hosts, beside.unnamed = 2*c.hosts, c.unnamed
	var heap, rows [3]float64
	for i, s := range []size{few, more, beside} {
		var err error
		if heap[i], rows[i], err = readIn(ctx, s); err != nil {
			return err
		}
	}
	named, unnamed := 2*float64(c.hosts), float64(c.members*c.unnamed) // of a host in two members
	at := params{"members": c.members, "hosts": c.hosts}
	out.add("services.rows_per_referenced", at, (rows[1]-rows[0])/named, "")
	out.add("services.heap_per_referenced", at, (heap[1]-heap[0])/named, "B")
	out.add("services.rows_per_unreferenced", at, (rows[2]-rows[0])/unnamed, "")
	out.add("services.heap_per_unreferenced", at, (heap[2]-heap[0])/unnamed, "B")
	return nil
}

// readIn is the heap of a control plane that has read a fleet, and how many rows the
// members give.
func readIn(ctx context.Context, s size) (heap, rows float64, err error) {
	var none figures
	w, err := newWorldOf(ctx, s, 0, 0, &none)
	if err != nil {
		return 0, 0, err
	}
	defer w.close()
	if err := w.checkpointed(ctx); err != nil {
		return 0, 0, err
	}
	tables, err := w.control.rows()
	if err != nil {
		return 0, 0, err
	}
	heap, err = w.control.heap()
	return heap, float64(tables["services"] + tables["slices"]), err
}
