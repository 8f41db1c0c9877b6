// Package apiserver runs a real kube-apiserver inside the process: the
// embedded hub, and a lab's members by the same code.
//
// Run holds true, from the call of its ready function until its context ends:
// the API is served on one loopback address, over TLS, from an etcd inside the
// process that listens on unix sockets only; RBAC is on; namespaces delete,
// owned objects are collected, service accounts and their tokens work; with
// Config.Workloads, Deployments make ReplicaSets make Pods and EndpointSlices
// follow them (nothing schedules or runs the Pods); with Config.CRDs, our own
// kinds and those of the Gateway API are established, and a kubeconfig with the rights of serve works. All state is below Config.DataDir, which one process
// holds at a time, and survives a restart: same CA, same port, same objects.
// Certificates are renewed while it runs.
//
// An API server in a process does not stop cleanly: Run may be called once in a
// process, which should exit soon after Run returns. Only cmd imports this
// package, because it brings k8s.io/kubernetes with it, which makes no promise
// about its Go API; nothing of that may leak out of here.
package apiserver
