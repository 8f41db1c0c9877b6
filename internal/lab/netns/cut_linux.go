package netns

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Cut is one fault in the router's forwarding path: packets between Inside and
// everything outside it, in both directions, are discarded, or answered with a
// TCP reset (ICMP port unreachable for other protocols) when Refuse is set.
// Traffic within Inside goes on. Established connections are hit too.
type Cut struct {
	Inside netip.Prefix
	Refuse bool
}

// SetCuts makes exactly these faults hold, in one step: no packet sees half
// of the change.
func (r *Router) SetCuts(cuts []Cut) error {
	// On the thread, not by the library's own change of namespace: without
	// root nobody may return to the host's network.
	return r.Do(func() error { return setCuts(cuts) })
}

func setCuts(cuts []Cut) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "spillway-lab"})
	chain := c.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	c.FlushChain(chain)
	for _, cut := range cuts {
		for _, from := range []bool{true, false} {
			for _, verdict := range verdicts(cut.Refuse) {
				c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(crossing(cut.Inside, from), verdict...)})
			}
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables: set %d cuts: %w (does this kernel have nf_tables with inet and reject?)", len(cuts), err)
	}
	return nil
}

// crossing matches packets that leave (or enter) a prefix.
func crossing(p netip.Prefix, leaving bool) []expr.Any {
	proto, src, dst, size := byte(unix.NFPROTO_IPV4), uint32(12), uint32(16), uint32(4)
	if p.Addr().Is6() {
		proto, src, dst, size = unix.NFPROTO_IPV6, 8, 24, 16
	}
	inside, outside := dst, src
	if leaving {
		inside, outside = src, dst
	}
	exprs := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
	}
	exprs = append(exprs, within(p, inside, size, expr.CmpOpEq)...)
	return append(exprs, within(p, outside, size, expr.CmpOpNeq)...)
}

// within compares the address at an offset of the network header to a prefix.
func within(p netip.Prefix, offset, size uint32, op expr.CmpOp) []expr.Any {
	mask := net.CIDRMask(p.Bits(), int(size)*8)
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

// verdicts lists the endings of one match, each a rule of its own.
func verdicts(refuse bool) [][]expr.Any {
	if !refuse {
		return [][]expr.Any{{&expr.Verdict{Kind: expr.VerdictDrop}}}
	}
	return [][]expr.Any{
		{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
		},
		{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}},
	}
}
