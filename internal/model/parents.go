package model

import (
	"fmt"
	"slices"
)

// ParentStatus is what is said of a reference of a route to a parent.
type ParentStatus struct {
	Parent     Parent
	Conditions []StatedCondition // sorted by type
}

// StatedCondition is a condition of an object's status, without its time.
type StatedCondition struct {
	Type, Status, Reason, Message string
	Generation                    int64
}

// ParentTexts is such statuses as comparable text, whatever their order.
func ParentTexts(all []ParentStatus) Texts {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = fmt.Sprintf("%+q %+q", fmt.Sprint(p.Parent), fmt.Sprint(p.Conditions))
	}
	slices.Sort(out)
	return TextsOf(out)
}
