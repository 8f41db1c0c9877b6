package main

import "math"

// rare is the probability beyond which a draw is not by chance: that of 5 standard
// deviations of a normal distribution, to one side.
var rare = math.Erfc(5/math.Sqrt2) / 2

// byChance tells whether k of n requests with probability p each may be chance: neither
// that many or more nor that few or fewer is so improbable. It is the binomial
// distribution itself, which a normal one is not near to where n is small.
func byChance(k, n int, p float64) bool {
	return atMost(k, n, p) > rare && atMost(n-k, n, 1-p) > rare
}

// atMost is the probability of k or fewer of n.
func atMost(k, n int, p float64) float64 {
	sum := 0.0
	for i := range k + 1 {
		sum += exactly(i, n, p)
	}
	return sum
}

func exactly(k, n int, p float64) float64 {
	if p == 0 || p == 1 {
		if float64(k) == p*float64(n) {
			return 1
		}
		return 0
	}
	l := func(i int) float64 { v, _ := math.Lgamma(float64(i + 1)); return v }
	return math.Exp(l(n) - l(k) - l(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}
