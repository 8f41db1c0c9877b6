package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// trouble turns the failure of a request into a condition reason and a
// message. Equal failures give equal messages, which never quote what a server
// sent: a condition must not flap, nor become somebody else's notice board.
func trouble(host string, err error) (reason, message string) {
	const stays = "; its last known endpoints stay in use"
	limit := limitOf(err)
	switch {
	case limit != nil:
		return v1alpha1.ReasonTooManyObjects, fmt.Sprintf("%s has %v, the most that is read of a member: remove what it does not need%s", host, limit, stays)
	case apierrors.IsUnauthorized(err):
		return v1alpha1.ReasonUnauthorized, fmt.Sprintf("%s refuses the credentials: renew the kubeconfig%s", host, stays)
	case errors.Is(err, errBlind):
		return v1alpha1.ReasonUnauthorized, fmt.Sprintf("%s does not allow to list and watch services and endpointslices in any namespace of spec.readNamespaces: grant it%s", host, stays)
	case apierrors.IsForbidden(err):
		return v1alpha1.ReasonUnauthorized, fmt.Sprintf("%s does not allow to list and watch services and endpointslices in all namespaces: grant it%s", host, stays)
	}
	reason = v1alpha1.ReasonFailing
	if silence(err) {
		reason = v1alpha1.ReasonUnreachable
	}
	return reason, fmt.Sprintf("%s: %s%s", host, cause(err), stays)
}

// silence reports whether a failure is that nobody answered, which mends itself.
// What does answer, and not as it should, somebody has to look at.
func silence(err error) bool {
	var status apierrors.APIStatus
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &status) || errors.As(err, &certificate) {
		return false
	}
	var sent *url.Error
	var network net.Error
	return errors.As(err, &sent) || errors.As(err, &network) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// cause says in a few words why a request failed.
func cause(err error) string {
	var status apierrors.APIStatus
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("it answers %d", status.Status().Code)
	case errors.As(err, &certificate):
		return "its certificate is not trusted: check certificate-authority-data"
	case errors.As(err, &dns):
		return "its name can't be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, errCut), errors.Is(err, errEndless):
		return err.Error()
	case silence(err):
		return "the connection fails"
	}
	return "its answers can't be read"
}
