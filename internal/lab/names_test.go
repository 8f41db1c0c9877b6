package lab

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
)

func TestAnswerName(t *testing.T) {
	s := Spec{Loopback: "127.0", Members: []MemberSpec{{Name: "eu-1", Contour: true}, {Name: "us-1", Contour: true, ContourName: "lb.test"}}}
	if got := s.NamesAddress().String(); got != "127.0.12.254:5353" || (Spec{Members: s.Members[:1]}).NamesAddress().IsValid() {
		t.Error(got)
	}
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"lb.test.", dns.TypeA, "NOERROR 127.0.12.2"},
		{"LB.test.", dns.TypeA, "NOERROR 127.0.12.2"},
		{"lb.test.", dns.TypeAAAA, "NOERROR"},
		{"other.test.", dns.TypeA, "NXDOMAIN"},
	} {
		got := answerName(s.names(), new(dns.Msg).SetQuestion(c.name, c.kind))
		text := dns.RcodeToString[got.Rcode]
		for _, rr := range got.Answer {
			text += fmt.Sprint(" ", rr.(*dns.A).A)
		}
		if text != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, dns.TypeToString[c.kind], text, c.want)
		}
	}
	if got := answerName(nil, new(dns.Msg)); got.Rcode != dns.RcodeFormatError {
		t.Error(got)
	}
}
