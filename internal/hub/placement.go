package hub

import (
	"github.com/spillway-dev/spillway/api/v1alpha1"
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
		Fields: map[string]any{"chosen": s.Chosen, "total": s.Total, "members": members, "edits": placementEdits(s.Edits)},
	}
}

// placementEdits are edits as the kind has them; nil: there are none.
func placementEdits(all []leaf.PlacedEdit) any {
	if len(all) == 0 {
		return nil
	}
	out := make([]v1alpha1.PlacementEdit, len(all))
	for i, e := range all {
		out[i] = v1alpha1.PlacementEdit{
			Kind: e.Of.Kind, Namespace: e.Of.Namespace, Name: e.Of.Name, Token: e.Token, Reason: e.Reason,
			Wave: int32(e.Wave), Waves: int32(e.Waves), Having: int32(e.Having), Members: int32(e.Members),
			Returnable: e.Returnable, Message: clip(e.Message, maxMemberMessage),
		}
	}
	return out
}

// maxMemberMessage is the longest message about a member or an edit, as the kind has it.
const maxMemberMessage = 1024
