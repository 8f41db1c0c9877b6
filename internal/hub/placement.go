package hub

import (
	"github.com/spillway-dev/spillway/internal/leaf"
)

// placementStatus is the status of a Placement but for its targets, which are entries
// of it as those of other policies are.
func placementStatus(s *leaf.PlacementStatus) Status {
	members := make([]any, len(s.Members))
	for i, m := range s.Members {
		said := map[string]any{"name": string(m.Name), "chosen": m.Chosen, "reason": m.Reason}
		if m.Message != "" {
			said["message"] = clip(m.Message, maxMemberMessage)
		}
		members[i] = said
	}
	return Status{
		Generation: s.Generation, Conditions: wantedConditions(s.Conditions), Each: true,
		Fields: map[string]any{"chosen": s.Chosen, "total": s.Total, "members": members},
	}
}

// maxMemberMessage is the longest message about a member, as the kind has it.
const maxMemberMessage = 1024
