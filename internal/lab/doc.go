// Package lab runs a fleet on one Linux machine, without containers and
// without root: a hub and members, each a real API server; a pod network per
// member in network namespaces; pods as local processes; edges as real Envoys
// in places of their own; and faults.
//
// Start runs a supervisor (our own binary again, hidden command
// `lab-supervisor`) in a user namespace when the caller is not root, and in
// mount and process namespaces of its own always. It is the parent of
// everything else. What the fleet consists of lives and dies with it: when it
// ends, by whatever means, the kernel ends every process in its process
// namespace and frees the network namespaces; it ends when Close is called and
// when its parent ends. Left behind are only the files in Spec.Dir.
//
// API servers run in the host's network on loopback; users reach them through
// a forwarder of the lab, which `cut MEMBER api` closes or silences. Pods,
// edges and places reach each other through one router namespace, where
// `cut MEMBER data` drops or refuses packets. What a place offers to the host
// (an edge's listeners, Envoy's admin port) and the host to a place (the
// control plane, DNS, the other edges) goes through forwarders too.
//
// Files in Spec.Dir: hub.kubeconfig, serve.kubeconfig, members/NAME.kubeconfig, pki/ (0600 keys),
// logs/, hub-objects.yaml, places, lab.json (see State), control.sock.
//
// Only Linux can do this; elsewhere Start returns an *Unsupported.
package lab
