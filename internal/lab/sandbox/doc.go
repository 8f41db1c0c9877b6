// Package sandbox runs pods as local processes: the kubelet's Runtime.
//
// A pod is a network namespace attached to the lab's router; a container is a
// process in it, first of its own process namespace, with a mount namespace
// and a root folder of its own. The root is a mirror of the machine's: every
// entry is bind-mounted from it, so local programs and their libraries are
// found, and a volume may be mounted at any path, existing or not, without
// touching the machine's files. Linux only; other systems get the empty
// package.
package sandbox
