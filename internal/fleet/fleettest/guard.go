package fleettest

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
)

func guard(w *World, words []string) (string, error) {
	a := Parse(words)
	host, port, err := net.SplitHostPort(a.Word(0))
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", err
	}
	id := fleet.Guarded{Host: host, Port: uint16(n)}
	if a.Word(1) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Guarded.Delete(tx, id) })
		return "", a.Err
	}
	row := fleet.Guard{What: a.Word(1)}
	for s := range strings.SplitSeq(a.Word(2), ",") {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return "", err
		}
		row.Addresses = append(row.Addresses, ip)
	}
	slices.SortFunc(row.Addresses, netip.Addr.Compare)
	w.Stage(func(tx *inc.Tx) { w.Program.In.Guarded.Set(tx, id, row) })
	return "", a.Err
}
