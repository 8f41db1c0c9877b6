package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

func reply(status int, body string) user.Reply {
	return user.Reply{Sent: at(1000), Done: at(1010), Status: status, Body: []byte(body), Header: http.Header{}}
}

func TestAnswers(t *testing.T) {
	for want, r := range map[string]user.Reply{
		servedByBlue:          reply(200, `{"pod": "blue-7d-x2"}`),
		notFound:              reply(404, ""),
		closed:                {Refused: true},
		"no answer: it broke": {Err: errors.New("it broke")},
	} {
		if got := answer(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := answer(reply(200, "hello")); !strings.HasPrefix(got, "200, but not of a pod") {
		t.Error(got)
	}
}

func TestWrongAnswersAreTold(t *testing.T) {
	var l load
	x := &target{request: user.Request{URL: "http://a.example/", Edge: &user.Edge{Name: "Gateway a"}}, usual: []string{servedByBlue}}
	x.right.be(at(0), x.usual...)
	l.judge(x, x.request, reply(200, `{"pod": "blue-7d-x2"}`))
	if err := l.wrong(); err != nil {
		t.Error(err)
	}
	for range 2 * mentioned {
		l.judge(x, x.request, reply(503, ""))
	}
	want := `GET http://a.example/ at Gateway a was answered "503" after 10ms, expected was one of ["200 blue"]`
	if err := l.wrong(); err == nil || !strings.Contains(err.Error(), want) || l.failed != 2*mentioned || len(l.failures) != mentioned {
		t.Errorf("%d failed: %v", l.failed, err)
	}
}

func TestOneInEightHasAConnectionOfItsOwn(t *testing.T) {
	l := load{turns: []*target{{}, {}, {}}}
	fresh := map[int]int{} // by target
	for n := range 3 * freshEvery * 10 {
		if r, _ := l.draw(n); r.Fresh {
			fresh[n%3]++
		}
	}
	if fresh[0] != 10 || fresh[1] != 10 || fresh[2] != 10 {
		t.Error(fresh)
	}
}

func TestWeightsGoToTheirEndAndBack(t *testing.T) {
	var got []string
	for n := range 12 {
		got = append(got, weightsOf(n).String())
	}
	if all, want := strings.Join(got, " "), "100/0 90/10 50/50 1/3 10/90 0/100 10/90 1/3 50/50 90/10 100/0 90/10"; all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
}

// answered is an answer of a step.
func answered(step, pod string) user.Reply {
	r := reply(200, `{"pod": "`+pod+`-7d-x2"}`)
	r.Header.Set(stepHeader, step)
	return r
}

func TestStepsAreJudged(t *testing.T) {
	for _, c := range []struct {
		what        string
		all         []user.Reply
		strange, ok bool
	}{
		{"as the weights say", []user.Reply{answered("0", "blue"), answered("0", "blue")}, false, true},
		{"weight 0 got one", []user.Reply{answered("0", "blue"), answered("0", "green")}, false, false},
		{"of no step", []user.Reply{answered("", "blue")}, true, true},
		{"of a step to come", []user.Reply{answered("1", "blue")}, true, true},
		{"a failure of the load", []user.Reply{reply(503, "")}, false, true},
	} {
		var s stepped
		_, came := s.next(time.Unix(0, 0))
		for _, r := range c.all {
			s.saw(r)
		}
		if err := s.judge(&report{}); (err == nil) != c.ok || (s.strange != nil) != c.strange {
			t.Errorf("%s: %v, %v", c.what, err, s.strange)
		}
		if c.what == "as the weights say" {
			<-came
		}
	}
}
