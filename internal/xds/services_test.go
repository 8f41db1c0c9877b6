package xds_test

import (
	"net/netip"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
	"github.com/spillway-dev/spillway/internal/xds/lrs"
	"github.com/spillway-dev/spillway/internal/xds/sotw"
)

func init() {
	xds.Load, xds.NewWorld = lrs.Service{}, sotw.New
	xds.NewHealth = func(of func(edge string) (netip.AddrPort, bool), heard func(up bool)) (xds.Service, func()) {
		s := hds.New(hds.Config{
			Canaries: func(edge string) []hds.Canary {
				at, ok := of(edge)
				if !ok {
					return nil
				}
				return []hds.Canary{{Member: "eu-1", Addr: at}}
			},
			Health: func(r hds.Report) func(time.Time) bool {
				for _, c := range r.Canaries {
					heard(c.Healthy)
				}
				return func(time.Time) bool { return false } // each is to be read
			},
		})
		return s, s.CanariesChanged
	}
}
