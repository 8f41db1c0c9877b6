package lab

import "fmt"

// whyNot says which setting keeps a machine from making the lab's namespaces.
// setting reads one of the kernel's, "" when there is none of that name.
func whyNot(root bool, setting func(string) string, err error) string {
	if root {
		return fmt.Sprintf("this root may not make namespaces (%v), as in a container; run the container privileged, or the lab outside of it", err)
	}
	for _, s := range []struct{ name, off, fix string }{
		{"user.max_user_namespaces", "0", "as root: sysctl -w user.max_user_namespaces=10000"},
		{"kernel.unprivileged_userns_clone", "0", "as root: sysctl -w kernel.unprivileged_userns_clone=1"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run the lab as root"},
	} {
		if setting(s.name) == s.off {
			return fmt.Sprintf("%s is %s, so only root may make namespaces; %s", s.name, s.off, s.fix)
		}
	}
	return fmt.Sprintf("the kernel refuses namespaces to this user (%v); run the lab as root", err)
}
