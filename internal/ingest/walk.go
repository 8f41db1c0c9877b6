package ingest

// Parts of objects as JSON has them. What is not as it should be is as if it were not there.

func mapIn(m map[string]any, name string) map[string]any {
	out, _ := m[name].(map[string]any)
	return out
}

// TextIn is a field that is a text.
func TextIn(m map[string]any, name string) string {
	out, _ := m[name].(string)
	return out
}

func numberIn(m map[string]any, name string) int64 {
	switch n := m[name].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// MapsIn are those of a list that are maps.
func MapsIn(m map[string]any, name string) []map[string]any {
	list, _ := m[name].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if of, is := e.(map[string]any); is {
			out = append(out, of)
		}
	}
	return out
}
