package iam

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// newCa makes a certificate, by default of a CA, and answers its PEM.
func newCa(t testing.TB, changes ...func(*x509.Certificate)) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "domain.com"},
		NotBefore: start.Add(-time.Hour), NotAfter: start.Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true,
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCa(t *testing.T) {
	t.Parallel()
	r := setup(t)
	text := newCa(t)
	block, _ := pem.Decode([]byte(text))
	sum := sha1.Sum(block.Bytes)
	fingerprint := `"` + hex.EncodeToString(sum[:]) + `"`

	one := r.call("CreateCa", `{"CaPem": `+quote(text)+`, "Description": "first"}`)
	one.is("Ca.CaFingerprint", fingerprint, "Ca.Description", `"first"`, "Ca.Pem", "")
	two := r.call("CreateCa", `{"CaPem": `+quote("\n"+text+"\n\n")+`}`)
	two.is("Ca.CaFingerprint", fingerprint, "Ca.Description", "")
	a, b := one.get("Ca.CaId"), two.get("Ca.CaId")
	if a == b {
		t.Errorf("both have the ID %s", a)
	}

	for body, want := range map[string]string{
		`{}`:                                    `["` + a + `","` + b + `"]`,
		`{"Filters": {}}`:                       `["` + a + `","` + b + `"]`,
		`{"Filters": {"CaIds": ["` + b + `"]}}`: `["` + b + `"]`,
		`{"Filters": {"Descriptions": ["first"]}}`:               `["` + a + `"]`,
		`{"Filters": {"CaFingerprints": [` + fingerprint + `]}}`: `["` + a + `","` + b + `"]`,
		`{"Filters": {"CaFingerprints": ["00"]}}`:                `[]`,
	} {
		if got := ids(r.call("ReadCas", body), "Cas", "CaId"); got != want {
			t.Errorf("ReadCas %s: %s, want %s", body, got, want)
		}
	}

	r.call("UpdateCa", `{"CaId": "`+a+`"}`).is("Ca.Description", `"first"`)
	r.call("UpdateCa", `{"CaId": "`+a+`", "Description": "new"}`).is("Ca.Description", `"new"`, "Ca.CaFingerprint", fingerprint)
	r.call("UpdateCa", `{"CaId": "`+b+`", "Description": ""}`).is("Ca.Description", `""`)
	r.refused("UpdateCa", `{"Description": "x"}`, apierror.MissingParameter, "CaId")
	r.refused("UpdateCa", `{"CaId": "ca-`+fmt.Sprintf("%032d", 0)+`"}`, apierror.ObjectNotFound, "CaId")

	r.view(func(tx *resource.Tx) {
		ca, err := Cas.Get(tx, id.Ca(a))
		if err != nil {
			t.Fatal(err)
		}
		if cert, err := ca.Certificate(); err != nil || !bytes.Equal(cert.Raw, block.Bytes) {
			t.Errorf("the CA kept another certificate: %v", err)
		}
	})

	r.call("DeleteCa", `{"CaId": "`+a+`"}`)
	r.refused("DeleteCa", `{"CaId": "`+a+`"}`, apierror.ObjectNotFound)
	if got := ids(r.call("ReadCas", `{}`), "Cas", "CaId"); got != `["`+b+`"]` {
		t.Errorf("after the deletion of %s: %s", a, got)
	}
}

func TestCreateCaRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	good := newCa(t)
	key := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("key")})
	junk := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("junk")})
	for name, text := range map[string]string{
		"no PEM":           "hello",
		"empty":            "",
		"a key":            string(key),
		"junk":             string(junk),
		"two certificates": good + good,
		"a tail":           good + "tail",
		"not a CA":         newCa(t, func(c *x509.Certificate) { c.IsCA = false }),
		"no constraints":   newCa(t, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }),
		"does not sign":    newCa(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }),
	} {
		t.Run(name, func(t *testing.T) {
			r.refused("CreateCa", `{"CaPem": `+quote(text)+`}`, apierror.InvalidCertificate, "CaPem")
		})
	}
	r.refused("CreateCa", `{}`, apierror.MissingParameter, "CaPem")
	r.call("CreateCa", `{"CaPem": `+quote(newCa(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }))+`}`)
	for range maxCas - 1 {
		r.call("CreateCa", `{"CaPem": `+quote(good)+`}`)
	}
	r.refused("CreateCa", `{"CaPem": `+quote(good)+`}`, apierror.TooManyCertificates)
}

func TestCaInUse(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ca := r.call("CreateCa", `{"CaPem": `+quote(newCa(t))+`}`).get("Ca.CaId")
	rule := r.call("CreateApiAccessRule", `{"CaIds": ["`+ca+`"]}`).get("ApiAccessRule.ApiAccessRuleId")
	r.refused("DeleteCa", `{"CaId": "`+ca+`"}`, apierror.InUse, ca, rule)
	r.call("UpdateApiAccessRule", `{"ApiAccessRuleId": "`+rule+`", "IpRanges": ["192.0.2.1"]}`)
	r.call("DeleteCa", `{"CaId": "`+ca+`"}`)
}

func FuzzParseCa(f *testing.F) {
	f.Add(newCa(f))
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text string) {
		cert, err := parseCa(text)
		if err == nil && !cert.IsCA {
			t.Error("accepted a certificate that is no CA's")
		}
		if f, ok := errors.AsType[*apierror.Error](err); err != nil && (!ok || f.Code != apierror.InvalidCertificate) {
			t.Errorf("refused with %v", err)
		}
	})
}
