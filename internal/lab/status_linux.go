package lab

import (
	"github.com/spillway-dev/spillway/internal/lab/proc"
)

// status tells what there is and how it does.
func (s *supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	self := proc.SelfPID()
	st := Status{
		PID: self, Started: s.began, Dir: s.spec.Dir, Usage: usageOf(self), XDSPort: s.spec.XDSPort, DNSPort: s.spec.DNSPort,
		Members: []MemberStatus{}, Edges: []EdgeStatus{}, Places: []PlaceStatus{},
	}
	if s.hub != nil {
		hub := s.hub.status()
		st.Hub = &hub
	}
	for _, m := range s.members {
		if m == nil {
			continue
		}
		ms := MemberStatus{
			Name: m.spec.Name, Region: m.spec.Region, Zones: m.spec.Zones, API: m.api.status(),
			PodNet: m.podNet4().String(), DataCut: m.dataCut, Pods: m.kubelet.Pods(),
		}
		if m.spec.Contour {
			ms.Ingress = s.spec.IngressAddress(m.spec.Name).String()
		}
		st.Members = append(st.Members, ms)
	}
	for _, e := range s.edges {
		if e == nil {
			continue
		}
		es := EdgeStatus{
			Name: e.spec.Name, Place: e.spec.Place, Region: e.spec.Region, Zone: e.spec.Zone, Address: e.addr.String(),
			HTTPPort: e.spec.HTTPPort, HTTPSPort: e.spec.HTTPSPort, Admin: adminAddress(e.addr),
		}
		if e.process != nil {
			es.Process = processStatus(e.process)
		}
		st.Edges = append(st.Edges, es)
	}
	for _, p := range s.places {
		if p != nil {
			st.Places = append(st.Places, PlaceStatus{Name: p.name, Edge: p.edge, Client: p.client, Address: p.addr.String(), Source: p.source.String()})
		}
	}
	return st
}

func (a *api) status() APIStatus {
	return APIStatus{Kubeconfig: a.kubeconfig, Server: a.server, Cut: a.cutMode(), Process: processStatus(a.process)}
}

func processStatus(p *proc.Process) ProcessStatus {
	st := p.State()
	out := ProcessStatus{Running: st.Running, Paused: st.Paused, PID: st.PID, Restarts: st.Restarts, LastExit: st.LastExit}
	if st.Running {
		out.Usage = usageOf(st.PID)
	}
	return out
}

func usageOf(pid int) Usage {
	u := proc.UsageOf(pid)
	return Usage{RSS: u.RSS, CPU: u.CPU.Seconds()}
}
