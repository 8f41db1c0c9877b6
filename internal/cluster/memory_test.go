package cluster

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// What each member of BenchmarkMember has.
const benchSlices, benchEndpoints = 300, 10

// heap is what lives after a collection, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMember measures the heap of a member with 3,000 endpoints in 300
// slices, and their 300 Services: its connection, and its rows in the tables,
// included. The server is another process.
func BenchmarkMember(b *testing.B) {
	const members = 50
	api := fakeProcess(b)
	for b.Loop() {
		r := newRig(b, nil)
		r.members = NewMembers(r.ctx, r.in, r.tables, r.mail, slog.New(slog.DiscardHandler))
		r.start()
		connect := func(from, to int) {
			for i := from; i < to; i++ {
				id := model.Member(fmt.Sprintf("m-%02d", i))
				r.members.secret(string(id), map[string][]byte{"kubeconfig": api})
				r.members.want(id, ingest.Connection{Secret: string(id), Key: "kubeconfig"})
			}
			r.await("connected", func() bool { return r.in.Sources.Len() == to && r.in.Slices.Len() == to*benchSlices })
		}
		connect(0, 1) // what only the first costs
		before, start := heap(), time.Now()
		connect(1, 1+members)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms")
		b.ReportMetric(float64(heap()-before)/members/1024, "KiB/member")
		r.stop()
	}
}

// fakeProcess starts a server in a process of its own and returns a kubeconfig.
func fakeProcess(b *testing.B) []byte {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFakeProcess$")
	cmd.Env = append(os.Environ(), "SPILLWAY_FAKE_API=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if encoded, ok := strings.CutPrefix(lines.Text(), "kubeconfig "); ok {
			data, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				b.Fatal(err)
			}
			return data
		}
	}
	b.Fatal("the server did not start")
	return nil
}

// TestFakeProcess is the server of BenchmarkMember.
func TestFakeProcess(t *testing.T) {
	if os.Getenv("SPILLWAY_FAKE_API") == "" {
		t.Skip("only for BenchmarkMember")
	}
	api := newFakeAPI(t)
	zone := "eu-a"
	for i := range benchSlices {
		name := fmt.Sprintf("web-%04d", i)
		addresses := make([]string, benchEndpoints)
		for j := range addresses {
			addresses[j] = fmt.Sprintf("10.%d.%d.%d", i/256, i%256, j+1)
		}
		s := slice(name, addresses...)
		for j := range s.Endpoints {
			s.Endpoints[j].Zone = &zone
		}
		api.apply(service(name), s)
	}
	fmt.Println("kubeconfig " + base64.StdEncoding.EncodeToString(api.kubeconfig("t")))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
