package bootstrap

// DefaultMaxConnections bounds what clients may hold open, far above normal use, so
// that a flood ends before file descriptors do.
const DefaultMaxConnections = 50_000

// ownFiles are the files that Envoy has open without clients: sockets that listen,
// for each thread and port, those to the control plane, and its own.
const ownFiles = 512

// FilesFor is how many files Envoy must be allowed to open (RLIMIT_NOFILE) for as
// many connections of clients. Each may need one to an endpoint. Envoy raises its
// soft limit to the hard one, and may crash where both are too low.
func FilesFor(connections uint32) uint64 { return 2*uint64(connections) + ownFiles }

// ConnectionsWithin is how many connections of clients fit into a limit of open
// files: as many as there are by default, if it is large enough, and one at least.
func ConnectionsWithin(files uint64) uint32 {
	return uint32(min(max(files, ownFiles+2)-ownFiles, 2*DefaultMaxConnections) / 2)
}
