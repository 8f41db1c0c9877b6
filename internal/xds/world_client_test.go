package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// grpcModel is a gRPC client as gRFCs A27, A46 and A74 have it: it follows
// what its listeners lead to, uses a new configuration once it has all of it,
// keeps the good part of a response it rejects, and drops listeners and
// clusters that a response leaves out.
type grpcModel struct {
	want   map[string]bool // listeners that some channel asks for
	have   [kinds]map[string]*Resource
	sub    [kinds]map[string]bool
	nonce  [kinds]string
	asked  [kinds]bool                    // in this stream
	here   [kinds]map[string]bool         // taken in this stream
	bad    [kinds]map[string]bool         // refused in this stream
	active map[string]map[string]bool     // listener to the clusters that requests go to
	silent bool                           // rejects without a word
	lost   func(k kind, name string) bool // the view had none when the response was made
	isHeld func(TypeURL) bool
	pick   func(n int) int
	out    []Request
}

var clientOrder = [...]kind{listener, routes, cluster, assignment}

func newGRPCModel(pick func(int) int) *grpcModel {
	m := &grpcModel{want: map[string]bool{}, active: map[string]map[string]bool{}, pick: pick}
	for k := range kinds {
		m.have[k], m.sub[k] = map[string]*Resource{}, map[string]bool{}
	}
	return m
}

// connect opens a new stream: types are asked for in any order.
func (m *grpcModel) connect() {
	m.out = nil
	for k := range kinds {
		m.nonce[k], m.asked[k], m.here[k], m.bad[k] = "", false, map[string]bool{}, map[string]bool{}
	}
	first := m.pick(len(clientOrder))
	for i := range clientOrder {
		if k := clientOrder[(first+i)%len(clientOrder)]; len(m.sub[k]) > 0 {
			m.request(k, "")
		}
	}
	m.follow()
}

func (m *grpcModel) request(k kind, bad string) {
	m.asked[k] = true
	m.out = append(m.out, Request{Type: k.url(), Names: slices.Sorted(maps.Keys(m.sub[k])), Nonce: m.nonce[k], Rejected: bad != "", Error: bad})
}

// receive takes a response and answers it.
func (m *grpcModel) receive(r Response) error {
	k := kindOf[r.Type]
	if r.Version == "" || len(r.Removed) > 0 {
		return fmt.Errorf("%s: not a response of the state of the world: %+v", shortOf(r.Type), r)
	}
	m.nonce[k] = r.Nonce
	bad, in := "", map[string]bool{}
	for _, res := range r.Resources {
		in[res.Name] = true
		if isBad(res) {
			m.bad[k][res.Name] = true
			bad += "resource \"" + res.Name + "\": bad; "
		} else if m.sub[k][res.Name] {
			m.have[k][res.Name], m.here[k][res.Name] = res, true
		}
	}
	if bad != "" && m.silent {
		bad = "no"
	}
	if k == cluster || k == listener { // a response has all of these
		for _, name := range slices.Sorted(maps.Keys(m.have[k])) {
			if !in[name] {
				if err := m.lose(k, name); err != nil {
					return err
				}
			}
		}
	}
	early := m.pick(2) == 0 // its watchers may be slower than its answer
	if early {
		m.request(k, bad)
	}
	m.follow()
	if !early {
		m.request(k, bad)
	}
	return m.serves()
}

func (m *grpcModel) lose(k kind, name string) error {
	switch {
	case m.silent, m.bad[k][name] && !m.here[k][name]: // what the client kept from an earlier stream nobody can send
	case m.isHeld(k.url()):
		return fmt.Errorf("%s %s was taken away while held", shortOf(k.url()), name)
	case k == cluster && !m.lost(k, name):
		return fmt.Errorf("%s %s was taken away though it is there", shortOf(k.url()), name)
	case k == cluster && m.here[k][name]:
		return fmt.Errorf("cluster %s was taken away while subscribed to", name)
	}
	delete(m.have[k], name)
	if k == listener {
		delete(m.active, name)
	}
	for _, used := range m.active { // excused: not what is tested here
		delete(used, name)
	}
	return nil
}

// follow subscribes to what the client's state leads to, and uses what is complete.
func (m *grpcModel) follow() {
	m.activate()
	for _, k := range clientOrder {
		want := m.wants(k)
		if maps.Equal(want, m.sub[k]) {
			continue
		}
		for name := range m.sub[k] {
			if !want[name] {
				delete(m.have[k], name)
			}
		}
		m.sub[k] = want
		if m.asked[k] || len(want) > 0 {
			m.request(k, "")
		}
	}
}

func (m *grpcModel) wants(k kind) map[string]bool {
	if k == listener {
		return maps.Clone(m.want)
	}
	out := map[string]bool{}
	user := map[kind]kind{routes: listener, cluster: routes, assignment: cluster}[k]
	for name := range m.sub[user] {
		if res := m.have[user][name]; res != nil {
			for _, ref := range res.Refs() {
				out[ref.Name] = true
			}
		}
	}
	if k == cluster {
		for _, used := range m.active {
			maps.Copy(out, used)
		}
	}
	return out
}

// activate uses the configuration of each listener that is complete.
func (m *grpcModel) activate() {
	for l := range m.active {
		if !m.want[l] {
			delete(m.active, l)
		}
	}
	for l := range m.want {
		if used, complete := m.config(l); complete {
			m.active[l] = used
		}
	}
}

func (m *grpcModel) config(l string) (map[string]bool, bool) {
	used := map[string]bool{}
	lds := m.have[listener][l]
	if lds == nil {
		return nil, false
	}
	for _, ref := range lds.Refs() {
		rc := m.have[routes][ref.Name]
		if rc == nil {
			return nil, false
		}
		for _, ref := range rc.Refs() {
			if m.have[cluster][ref.Name] == nil || m.have[assignment][ref.Name] == nil {
				return nil, false
			}
			used[ref.Name] = true
		}
	}
	return used, true
}

// serves: what requests go to is there.
func (m *grpcModel) serves() error {
	for l, used := range m.active {
		for name := range used {
			if m.have[cluster][name] == nil {
				return fmt.Errorf("listener %s uses cluster %s, which is not there", l, name)
			}
		}
	}
	return nil
}

func (m *grpcModel) String() string {
	var b strings.Builder
	for _, k := range clientOrder {
		fmt.Fprintf(&b, "%s %v has", shortOf(k.url()), slices.Sorted(maps.Keys(m.sub[k])))
		for _, name := range slices.Sorted(maps.Keys(m.have[k])) {
			fmt.Fprintf(&b, " %s@%s", name, m.have[k][name].Version)
		}
		b.WriteString("\n")
	}
	return b.String()
}
