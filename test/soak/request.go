package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// answer is what a client saw, in one word or, where there is no answer, what
// happened.
func answer(r user.Reply) string {
	switch {
	case r.Refused:
		return closed
	case r.Status == 0 && r.Conn.Reused:
		return fmt.Sprintf("%v, on a connection unused for %s", r.Err, r.Conn.IdleTime.Round(time.Millisecond))
	case r.Status == 0:
		return r.Err.Error()
	case r.Err != nil:
		return "answer cut off: " + r.Err.Error()
	case r.Status != http.StatusOK:
		return strconv.Itoa(r.Status)
	}
	return servedBy(r.Body)
}

// servedBy names the workload of the pod that answered: a Deployment's pods are
// named after it, with two more words.
func servedBy(text []byte) string {
	var a struct{ Pod string }
	if err := json.Unmarshal(text, &a); err != nil || a.Pod == "" {
		return fmt.Sprintf("200, but not of a pod: %.80q", text)
	}
	name, _, _ := strings.Cut(a.Pod, "-")
	return served(name)
}
