package ingest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// show writes the fields of a struct that have a value, one a line.
func show(b *strings.Builder, row any) {
	v := reflect.ValueOf(row)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case f.IsZero():
		case v.Type().Field(i).Anonymous:
			show(b, f.Interface())
		case f.Kind() == reflect.Slice && f.Len() > 0 && f.Index(0).Kind() == reflect.Struct:
			for j := range f.Len() {
				fmt.Fprintf(b, "  %s[%d]: %+v\n", name, j, f.Index(j))
			}
		case f.Kind() == reflect.Pointer:
			fmt.Fprintf(b, "  %s: %+v\n", name, f.Elem())
		default:
			fmt.Fprintf(b, "  %s: %+v\n", name, f)
		}
	}
}

// pairs are the certificates that stories name: CERT and KEY of each. Package pki
// makes keys of one kind; these are of those that users have.
var pairs = map[string]func() (cert, key string){
	"ecdsa":  ecdsaPair,
	"other":  ecdsaPair,
	"rsa":    func() (string, string) { k, _ := rsa.GenerateKey(rand.Reader, 2048); return pair(k, &k.PublicKey) },
	"edward": func() (string, string) { p, k, _ := ed25519.GenerateKey(rand.Reader); return pair(k, p) },
}

func ecdsaPair() (string, string) {
	k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return pair(k, &k.PublicKey)
}

func pair(key, public any) (string, string) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"Shop.example", "*.shop.example"},
		NotAfter: time.Unix(2_000_000_000, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	encode := func(kind string, data []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// expand replaces CERT(name) and KEY(name) in a story, and PEM(name), which is the
// certificate as a text.
func expand(t *testing.T, story string) string {
	t.Helper()
	for name, generate := range pairs {
		if strings.Contains(story, "("+name+")") {
			cert, key := generate()
			story = strings.NewReplacer("CERT("+name+")", cert, "KEY("+name+")", key, "PEM("+name+")", strconv.Quote(string(decode(t, cert))),
				"PEMKEY("+name+")", strconv.Quote(string(decode(t, key)))).Replace(story)
		}
	}
	return story
}

func decode(t *testing.T, s string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
