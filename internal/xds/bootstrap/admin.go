package bootstrap

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Admin says where Envoy's admin interface is, by the flags that the commands
// about a proxy have in common: a unix socket, or else a port on loopback.
type Admin struct {
	path string
	port uint16
}

// Flags adds the flags.
func (a *Admin) Flags(f *pflag.FlagSet) {
	f.StringVar(&a.path, "admin-path", "", "unix socket of Envoy's admin interface, at most 107 bytes long (default \""+DefaultAdminPath+"\")")
	f.Uint16Var(&a.port, "admin-port", 0, "port of Envoy's admin interface on 127.0.0.1, in place of a socket: every local user can use it")
}

// Choose returns the path or the address, and the other one empty.
func (a *Admin) Choose() (path, address string, err error) {
	switch {
	case a.path != "" && a.port != 0:
		return "", "", errors.New("give either --admin-path or --admin-port")
	case a.port != 0:
		return "", fmt.Sprintf("127.0.0.1:%d", a.port), nil
	case a.path == "":
		return DefaultAdminPath, "", nil
	}
	return a.path, "", nil
}
