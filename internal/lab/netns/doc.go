// Package netns makes the lab's network: one Space per place or pod, joined
// by one Router, with member-wide faults in the router's forwarding path.
//
// A Space is a network namespace together with a mount and a host-name
// namespace, held by one operating-system thread that lives as long as the
// Space. Sockets and processes belong to the namespace of the thread that
// makes them, so everything that must happen inside goes through that thread;
// a socket may be used from anywhere afterwards. Processes started in a Space
// with a parent-death signal die when the Space is closed.
//
// Nothing here shells out: links, addresses and routes go over rtnetlink, the
// faults over nftables' netlink. Linux only; other systems get the empty
// package. It needs CAP_NET_ADMIN and CAP_SYS_ADMIN in its user namespace.
package netns
