package cluster

import "time"

// manyChanges is how many objects of a namespace may change within surgeTime as
// somebody's edit does. What changes beyond goes as bulk: in one turn with an edit
// of somebody else it would have that wait for all of it.
const (
	manyChanges = 32
	surgeTime   = time.Second
)

// surge counts the changes of namespaces, on the hub: there tenants write. What a
// member's pods do is urgent, however many they are, since requests fail meanwhile.
type surge struct {
	began time.Time
	count map[string]int // since then, by namespace
}

// urgency is that of one more change in a namespace.
func (s *surge) urgency(now time.Time, namespace string) Urgency {
	if s == nil {
		return Urgent
	}
	if s.count == nil || now.Sub(s.began) >= surgeTime {
		s.began, s.count = now, map[string]int{}
	}
	s.count[namespace]++
	if s.count[namespace] > manyChanges {
		return Bulk
	}
	return Urgent
}
