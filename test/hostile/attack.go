package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/spillway-dev/spillway/internal/lab"
)

// attack is something that an attacker does again and again.
type attack struct {
	name string
	what string
	rate int // times a second
	room int // how many of them go on at a time; beyond, they are left out
	// do does it once. An error says that it was refused.
	do func(*attackers, context.Context, int) error
}

// attacks are all there are; docs/hostile.md has the same table.
var attacks = []attack{
	{"identity storm", "connects as an edge, opens a stream of discovery, asks for everything and 100 made-up names, answers nothing, ends after 3 s", 20, 100, (*attackers).storm},
	{"identity names", "subscribes to 20,000 made-up names in a request and drops them, on one stream after another", 4, 8, (*attackers).names},
	{"identity refusal", "takes its first two responses and refuses each in a megabyte of words, under a node name that is new each time", 4, 16, (*attackers).refuse},
	{"identity types", "asks for 1,000 names of a type that nobody serves, or for a name of 4 KB", 10, 20, (*attackers).foreign},
	{"identity health", "opens a stream of health discovery and reports endpoints as dead that nobody has", 10, 60, (*attackers).health},
	{"identity load", "opens a stream of load reports about 200 clusters that nobody has", 10, 60, (*attackers).load},
	{"member", "a member's API: lists without end, large ones, garbage, watches that end at once, 410, 429, drips, endpoints of others; one after another", 0, 0, nil},
	{growing, "creates broken objects, 10,000 in all, in a namespace of its own", 100, 64, (*attackers).create},
	{"tenant edits", "changes one of them", 20, 8, (*attackers).edit},
	{"dns udp", "sends a packet from one of 250 addresses: names that are not there, noise, clients' subnets that are made up, types that nobody asks for", 2000, 1, (*attackers).datagram},
	{"dns tcp", "opens a connection from one of 250 addresses and says nothing, half of something, or one question every 8 s, for 20 s", 25, 400, (*attackers).idle},
}

// growing is the attack that is complete some time.
const growing = "tenant objects"

// says is an attack for people.
func (a attack) says() string { return a.often() + ": " + a.what }

func (a attack) often() string {
	if a.rate == 0 {
		return "when asked"
	}
	return fmt.Sprintf("%d a second, %d at a time", a.rate, a.room)
}

// taking are the attacks with a part of their name.
func taking(part string) (out []attack) {
	for _, a := range attacks {
		if strings.Contains(a.name, part) {
			out = append(out, a)
		}
	}
	return out
}

// deeds is what became of an attack.
type deeds struct {
	Done    int64  `json:"done"`
	Refused int64  `json:"refused"`          // of them, in one way or another
	Late    int64  `json:"left_out"`         // since there was no room
	Reason  string `json:"reason,omitempty"` // of the last refusal
}

// What a child says: that there is all that there will be, and what it did.
const (
	complete = "attackers: complete"
	result   = "attackers did "
)

// attackers is the process that attacks.
type attackers struct {
	lab     *lab.Lab
	xdsPort int
	// identity is stolen.
	identity credentials.TransportCredentials
	tenant   *tenant
	member   *liar
	sources  *sources
}

// attackLab attacks the lab until ctx ends, and takes away what it wrote.
func attackLab(ctx context.Context, o options) error {
	background := context.WithoutCancel(ctx)
	l, err := lab.Open(background, o.dir)
	if err != nil {
		return err
	}
	st, err := l.Status(background)
	if err != nil {
		return err
	}
	a := &attackers{lab: l, xdsPort: st.XDSPort}
	if a.identity, err = identity(l, stolen); err != nil {
		return err
	}
	if a.sources, err = newSources(l.DNSAddress()); err != nil {
		return err
	}
	defer a.sources.close()
	if a.tenant, err = newTenant(background, l); err != nil {
		return err
	}
	did := a.run(ctx, taking(o.only))
	text, err := json.Marshal(did)
	fmt.Println(result + string(text))
	return errors.Join(err, a.tenant.leave(background), a.member.leave(background))
}

// run does all of them at once.
func (a *attackers) run(ctx context.Context, all []attack) map[string]deeds {
	var mu sync.Mutex
	out := map[string]deeds{}
	var going sync.WaitGroup
	for _, one := range all {
		going.Go(func() {
			d := a.one(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			out[one.name] = d
		})
	}
	if !slices.ContainsFunc(all, func(a attack) bool { return a.name == growing }) {
		fmt.Println(complete)
	}
	going.Wait()
	return out
}

// one does an attack until ctx ends.
func (a *attackers) one(ctx context.Context, one attack) (d deeds) {
	if one.do == nil {
		member, err := newLiar(context.WithoutCancel(ctx), a.lab)
		if err != nil {
			return deeds{Reason: err.Error()}
		}
		a.member = member
		return member.lie(ctx)
	}
	var done, refused, late atomic.Int64
	var last atomic.Value
	pace(ctx, one.rate, one.room, &late, func(n int) {
		err := one.do(a, ctx, n)
		if errors.Is(err, errNothing) {
			return
		}
		done.Add(1)
		if err != nil && ctx.Err() == nil {
			refused.Add(1)
			last.Store(fmt.Sprintf("%.300s", err))
		}
	})
	d = deeds{Done: done.Load(), Refused: refused.Load(), Late: late.Load()}
	d.Reason, _ = last.Load().(string)
	return d
}

// errNothing says that there was nothing to do.
var errNothing = errors.New("nothing to do")

// beat is how often a pace looks what is due.
const beat = 10 * time.Millisecond

// pace calls do so many times a second until ctx ends, and waits for those that
// go on. Of what is due at the same time, more than room is left out; with room
// for one, more than a second's.
func pace(ctx context.Context, rate, room int, late *atomic.Int64, do func(n int)) {
	var going sync.WaitGroup
	defer going.Wait()
	places := make(chan struct{}, room)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	began, n := time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due; n++ {
			if room == 1 && due-n <= rate {
				do(n)
				continue
			}
			select {
			case places <- struct{}{}:
			default:
				late.Add(1)
				continue
			}
			going.Go(func() {
				defer func() { <-places }()
				do(n)
			})
		}
	}
}
