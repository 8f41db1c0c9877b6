package hds

import "time"

// Slowest is the longest time between two reports of a proxy.
const Slowest = 2 * time.Second

// steps are the times between reports that are asked for. Few, since each change
// is told to all proxies.
var steps = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, Slowest}

// Each report is about all that the proxy probes, so what reports cost grows with
// proxies times members. All proxies together report so much a second, by weight,
// that it takes less than a twentieth of a processor; where there are more,
// reports are asked for less often.
const perSecond = 290_000

// weight is what a report about some endpoints costs, in endpoints.
func weight(endpoints int) int {
	const itself = 60 // the frame, the wake-ups
	if endpoints == 0 {
		return 0 // one a minute
	}
	return endpoints + itself
}

// interval is the time between reports of so much weight together, after now was.
// It is longer as soon as that is too short, and shorter only when a quarter would
// do.
func interval(now time.Duration, weight int) time.Duration {
	need := time.Duration(weight) * time.Second / perSecond
	if need <= now && now < 4*need {
		return now
	}
	for _, step := range steps {
		if step >= need {
			return step
		}
	}
	return Slowest
}
