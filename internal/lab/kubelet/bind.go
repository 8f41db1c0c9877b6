package kubelet

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// binder is the lab's scheduler: a pod goes to the node with the fewest pods
// among those that its node selector matches; ties go to the first name.
type binder struct {
	labels map[string]map[string]string // of each node

	mu    sync.Mutex
	where map[types.UID]string
	count map[string]int
}

func newBinder(nodes []Node) *binder {
	b := &binder{labels: map[string]map[string]string{}, where: map[types.UID]string{}, count: map[string]int{}}
	for _, n := range nodes {
		b.labels[n.Name] = nodeObject(n).Labels
	}
	return b
}

// pick chooses a node and counts the pod there; the same pod gets the same
// answer. Without a node it says why.
func (b *binder) pick(p *corev1.Pod) (node, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.where[p.UID]; n != "" {
		return n, ""
	}
	for _, n := range slices.Sorted(maps.Keys(b.labels)) {
		if matches(p.Spec.NodeSelector, b.labels[n]) && (node == "" || b.count[n] < b.count[node]) {
			node = n
		}
	}
	if node == "" {
		return "", fmt.Sprintf("no node of %s has the labels %s", strings.Join(slices.Sorted(maps.Keys(b.labels)), ", "), formatLabels(p.Spec.NodeSelector))
	}
	b.put(p.UID, node)
	return node, ""
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func formatLabels(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

// bound counts a pod that has its node already.
func (b *binder) bound(p *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.where[p.UID] == "" {
		b.put(p.UID, p.Spec.NodeName)
	}
}

func (b *binder) put(uid types.UID, node string) {
	b.where[uid] = node
	b.count[node]++
}

// forget stops counting a pod.
func (b *binder) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.where[uid]; n != "" {
		b.count[n]--
		delete(b.where, uid)
	}
}

// nodePool hands out the pod addresses of one node, each as late as possible
// after its last use, so that a stale endpoint does not reach a new pod.
type nodePool struct {
	node Node

	mu   sync.Mutex
	used map[byte]bool
	last byte
}

const firstHost, lastHost = 2, 254

// take returns an IPv4 address and, where the node has them, an IPv6 address.
func (n *nodePool) take() ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.used == nil {
		n.used = map[byte]bool{}
	}
	for range lastHost - firstHost + 1 {
		n.last++
		if n.last < firstHost || n.last > lastHost {
			n.last = firstHost
		}
		if !n.used[n.last] {
			n.used[n.last] = true
			return n.addresses(n.last), nil
		}
	}
	return nil, fmt.Errorf("node %s has no free pod address in %s", n.node.Name, n.node.Pods4)
}

func (n *nodePool) addresses(host byte) []netip.Addr {
	a4 := n.node.Pods4.Masked().Addr().As4()
	a4[3] = host
	out := []netip.Addr{netip.AddrFrom4(a4)}
	if n.node.Pods6.IsValid() {
		a6 := n.node.Pods6.Masked().Addr().As16()
		a6[15] = host
		out = append(out, netip.AddrFrom16(a6))
	}
	return out
}

func (n *nodePool) put(addrs []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, addrs[0].As4()[3])
}
