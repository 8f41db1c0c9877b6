package envoy

// Resource returns the current version of a resource, for use between commits.
func (t *Tables) Resource(typeURL string, k Key) (Resource, bool) {
	table := t.table(typeURL)
	if table == nil {
		return Resource{}, false
	}
	return table.Get(nil, k)
}
