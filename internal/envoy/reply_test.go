package envoy

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
)

// A redirect to another host that names neither scheme nor port keeps the port of the
// listener, which Envoy would leave out.
func TestRedirectKeepsListenersPort(t *testing.T) {
	for _, c := range []struct {
		front model.Class
		to    model.Redirect
		want  uint32
	}{
		{"shop/web/8080", model.Redirect{Host: "other.example"}, 8080},
		{"shop/web/80", model.Redirect{Host: "other.example"}, 0},
		{"shop/web/443", model.Redirect{Host: "other.example"}, 0},
		{"shop/web/8080", model.Redirect{Host: "other.example", Port: 9090}, 9090},
		{"shop/web/8080", model.Redirect{Host: "other.example", Scheme: "https"}, 0},
		{"shop/web/8080", model.Redirect{Path: "/x"}, 0}, // the request's
		{"spillway", model.Redirect{Host: "other.example"}, 0},
	} {
		got := redirect(model.Everything, &model.Reply{Status: 302, Redirect: &c.to}, "shop.example", unusual(c.front.Port()))
		if got.PortRedirect != c.want {
			t.Errorf("%s to %+v: port %d instead of %d", c.front, c.to, got.PortRedirect, c.want)
		}
	}
}
