package inc

import "slices"

// Rows that are dirty come nearly sorted: each table before this one marked them
// in the order of its own keys, and a shell that brings many brings them in the
// order in which they were kept. What compares keys, and not what moves numbers,
// is the cost of a large commit. So the runs that are there are found, and
// merged: rows in order cost one comparison each.

// fewToSort are sorted without looking for runs.
const fewToSort = 32

// sortRuns sorts some numbers. Those that are equal keep their order.
func sortRuns(s []uint32, compare func(a, b uint32) int) {
	if len(s) < fewToSort {
		slices.SortStableFunc(s, compare)
		return
	}
	ends := runs(s, compare)
	if len(ends) == 1 {
		return
	}
	from, to := s, make([]uint32, len(s))
	for len(ends) > 1 {
		ends = mergePairs(to, from, ends, compare)
		from, to = to, from
	}
	if &from[0] != &s[0] {
		copy(s, from)
	}
}

// runs returns where the ascending runs of s end.
func runs(s []uint32, compare func(a, b uint32) int) []int {
	var ends []int
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) > 0 {
			ends = append(ends, i)
		}
	}
	return append(ends, len(s))
}

// mergePairs merges each two runs that are neighbours, and returns where those
// end that are left.
func mergePairs(to, from []uint32, ends []int, compare func(a, b uint32) int) []int {
	start, left := 0, ends[:0]
	for len(ends) > 1 {
		middle, end := ends[0], ends[1]
		ends = ends[2:]
		mergeRuns(to[start:end], from[start:middle], from[middle:end], compare)
		start, left = end, append(left, end)
	}
	if len(ends) == 1 {
		copy(to[start:], from[start:])
		left = append(left, ends[0])
	}
	return left
}

func mergeRuns(to, a, b []uint32, compare func(a, b uint32) int) {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			to[n], a = a[0], a[1:]
		} else {
			to[n], b = b[0], b[1:]
		}
		n++
	}
	copy(to[copy(to[n:], a)+n:], b)
}
