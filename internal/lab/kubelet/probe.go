package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eager is how often a container is probed until its first success, so that a
// pod is ready soon after it can be.
const eager = 100 * time.Millisecond

// prober runs one container's probes from inside the pod.
type prober struct {
	box  Sandbox
	addr netip.Addr
	c    *corev1.Container
	exec func(ctx context.Context, argv []string) error
}

// watch probes until ctx ends and reports every change: success after the
// probe's success threshold, failure after its failure threshold, counted from
// the container's start.
func (p prober) watch(ctx context.Context, spec *corev1.Probe, report func(ok bool, why error)) {
	period := max(seconds(spec.PeriodSeconds, 10), time.Second)
	need, bear := max(spec.SuccessThreshold, 1), orDefault(spec.FailureThreshold, 3)
	if !sleep(ctx, seconds(spec.InitialDelaySeconds, 0)) {
		return
	}
	var good, bad int32
	var state *bool
	tell := func(ok bool, err error) {
		if state == nil || *state != ok {
			state = &ok
			report(ok, err)
		}
	}
	began, everGood := time.Now(), false
	for {
		err := p.once(ctx, spec)
		if ctx.Err() != nil {
			return
		}
		// Eager failures count once a period, as a plain kubelet's would.
		if err == nil {
			good, bad, everGood = good+1, 0, true
		} else {
			good, bad = 0, bad+1
			if !everGood {
				bad = 1 + int32(time.Since(began)/period)
			}
		}
		if good >= need {
			tell(true, nil)
		} else if bad >= bear {
			tell(false, err)
		}
		wait := period
		if !everGood {
			wait = min(eager, period)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func seconds(n int32, otherwise int32) time.Duration {
	return time.Duration(orDefault(n, otherwise)) * time.Second
}

func orDefault(n, otherwise int32) int32 {
	if n == 0 {
		return otherwise
	}
	return n
}

// once probes one time.
func (p prober) once(ctx context.Context, spec *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(spec.TimeoutSeconds, 1))
	defer cancel()
	switch {
	case spec.HTTPGet != nil:
		return p.http(ctx, spec.HTTPGet)
	case spec.TCPSocket != nil:
		return p.tcp(ctx, spec.TCPSocket.Port)
	case spec.GRPC != nil:
		return p.grpc(ctx, spec.GRPC)
	case spec.Exec != nil:
		return p.exec(ctx, spec.Exec.Command)
	}
	return nil
}

// target resolves a port number or the name of a container port.
func (p prober) target(port intstr.IntOrString) (netip.AddrPort, error) {
	number := port.IntVal
	if port.Type == intstr.String {
		n, err := strconv.ParseUint(port.StrVal, 10, 16)
		number = int32(n)
		for _, cp := range p.c.Ports {
			if cp.Name == port.StrVal {
				number, err = cp.ContainerPort, nil
			}
		}
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("container %s has no port named %q", p.c.Name, port.StrVal)
		}
	}
	return netip.AddrPortFrom(p.addr, uint16(number)), nil
}

func (p prober) http(ctx context.Context, get *corev1.HTTPGetAction) error {
	to, err := p.target(get.Port)
	if err != nil {
		return err
	}
	url := strings.ToLower(string(get.Scheme)) + "://" + to.String() + "/" + strings.TrimPrefix(get.Path, "/")
	if get.Scheme == "" {
		url = "http" + url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "lab-kubelet")
	for _, h := range get.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value
		}
	}
	tr := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.box.Dial(ctx, to) },
		// As every kubelet: a probe asks whether it answers, not who it is.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("HTTP probe of %s: status %d", url, resp.StatusCode)
	}
	return nil
}

func (p prober) tcp(ctx context.Context, port intstr.IntOrString) error {
	to, err := p.target(port)
	if err != nil {
		return err
	}
	c, err := p.box.Dial(ctx, to)
	if err != nil {
		return err
	}
	return c.Close()
}

func (p prober) grpc(ctx context.Context, action *corev1.GRPCAction) error {
	to := netip.AddrPortFrom(p.addr, uint16(action.Port))
	conn, err := grpc.NewClient("passthrough:///"+to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.box.Dial(ctx, to) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	req := &grpc_health_v1.HealthCheckRequest{}
	if action.Service != nil {
		req.Service = *action.Service
	}
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, req)
	if err != nil {
		return err
	}
	if resp.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("gRPC probe of %s: %s", to, resp.Status)
	}
	return nil
}
