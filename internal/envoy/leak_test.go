package envoy

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// grpc-go watches the certificates of a bootstrap for as long as the process lives.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("google.golang.org/grpc/credentials/tls/certprovider/pemfile.(*watcher).run"))
}
