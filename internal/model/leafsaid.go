package model

import "encoding/json"

// LeafSaid is a LeafReport as comparable text; empty: nothing is said.
type LeafSaid string

// LeafReport is what the status of a leaf says beside addresses: what is merged into
// that of its root. It is bounded by who reads it.
type LeafReport struct {
	Conditions []LeafCondition `json:"conditions,omitempty"` // of the whole, by type
	Listeners  []LeafPart      `json:"listeners,omitempty"`  // of a Gateway, by name
	Parents    []LeafPart      `json:"parents,omitempty"`    // of a route, in the order of its status
}

// LeafPart is what is said of a part of a leaf.
type LeafPart struct {
	Name       string          `json:"name,omitempty"`   // of a listener
	Parent     *Parent         `json:"parent,omitempty"` // of a route, as the member has it
	Conditions []LeafCondition `json:"conditions,omitempty"`
}

// LeafCondition is a condition, without what changes though nothing is said anew.
type LeafCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Text is the report as text; that of one that says nothing is empty.
func (a LeafReport) Text() LeafSaid {
	if len(a.Conditions)+len(a.Listeners)+len(a.Parents) == 0 {
		return ""
	}
	data, err := json.Marshal(a)
	if err != nil {
		panic("a report of a leaf can't be written as JSON: " + err.Error())
	}
	return LeafSaid(data)
}

// Report is the inverse. What can't be read, as of another version, says nothing.
func (a LeafSaid) Report() LeafReport {
	var out LeafReport
	if a == "" || json.Unmarshal([]byte(a), &out) != nil {
		return LeafReport{}
	}
	return out
}
