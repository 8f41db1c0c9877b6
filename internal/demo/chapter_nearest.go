package demo

import (
	"context"
	"fmt"
)

// asked is how many single requests show who answers.
const asked = 20

// tellNearest asks each edge over HTTP and HTTPS, DNS from near each edge, and
// reads the Ingress's status.
func tellNearest(ctx context.Context, f *fleet, s *scene) error {
	for _, edge := range edges {
		for range asked {
			a, err := f.request(ctx, edge, shopHost)
			if err != nil {
				return fmt.Errorf("edge %s: %w", edge, err)
			}
			if a.Member != nearest[edge] {
				return fmt.Errorf("edge %s was answered by %s, not by %s", edge, a.Member, nearest[edge])
			}
		}
		a, err := f.requestTLS(ctx, edge, shopHost)
		if err != nil {
			return fmt.Errorf("edge %s over HTTPS: %w", edge, err)
		}
		if a.Member != nearest[edge] {
			return fmt.Errorf("edge %s was answered by %s over HTTPS, not by %s", edge, a.Member, nearest[edge])
		}
		s.say("%s answers at edge %s", a.Member, edge)
	}
	s.set("requests", asked*int64(len(edges)))
	s.set("failed", 0)
	if err := f.await(ctx, "DNS to send clients to the near edge", f.dnsNear); err != nil {
		return err
	}
	s.say("over HTTPS too; DNS sends clients to the near edge")
	if err := f.await(ctx, "the Ingress's status to list both edges", f.ingressListsAll); err != nil {
		return err
	}
	s.say("the Ingress's status lists both")
	return nil
}
