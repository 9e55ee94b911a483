package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// authority is a certificate authority of somebody's own.
type authority struct{ tls.Certificate }

// newAuthority makes an authority, which signs itself.
func newAuthority(t tester, name string) *authority {
	t.Helper()
	return &authority{issue(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})}
}

// issue makes the certificate of a client.
func (a *authority) issue(t tester, name string) tls.Certificate {
	t.Helper()
	return issue(t, &a.Certificate, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// pem is the certificate of the authority as CreateCa takes it.
func (a *authority) pem() string { return certificatePem(a.Certificate) }

func certificatePem(cert tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Leaf.Raw}))
}

// keyPem is the private key of a certificate as CreateServerCertificate takes it.
func keyPem(t tester, cert tls.Certificate) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatalf("writing a key: %v", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// issue makes a key and a certificate for it, valid for a day in the time of
// the drivers, by a parent or, if there is none, by itself.
func issue(t tester, parent *tls.Certificate, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %v", err)
	}
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = start.Add(-time.Hour), start.Add(23*time.Hour)
	if parent == nil {
		parent = &tls.Certificate{Leaf: template, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Leaf, key.Public(), parent.PrivateKey)
	if err != nil {
		t.Fatalf("making a certificate: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("reading a certificate: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
}
