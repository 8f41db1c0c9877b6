package hds

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(clientsOf); socket != "" {
		if err := healthClients(socket); err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
