// Command nameserver stands in for CoreDNS in tests of UDPRoutes: it answers each query
// with the address of who asked, as CoreDNS's plugin whoami does. It takes CoreDNS's
// arguments, and reads none of them.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/miekg/dns"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "nameserver:", err)
		os.Exit(1)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &dns.Server{Addr: ":53", Net: "udp", Handler: dns.HandlerFunc(answer)}
	context.AfterFunc(ctx, func() { _ = server.Shutdown() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

func answer(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	if from, ok := w.RemoteAddr().(*net.UDPAddr); ok && len(q.Question) == 1 {
		head := dns.RR_Header{Name: q.Question[0].Name, Class: dns.ClassINET}
		if ip := from.IP.To4(); ip != nil {
			head.Rrtype = dns.TypeA
			m.Extra = append(m.Extra, &dns.A{Hdr: head, A: ip})
		} else {
			head.Rrtype = dns.TypeAAAA
			m.Extra = append(m.Extra, &dns.AAAA{Hdr: head, AAAA: from.IP})
		}
	}
	_ = w.WriteMsg(m) // who asks asks again
}
