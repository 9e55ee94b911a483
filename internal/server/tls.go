package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLS returns the TLS configuration of the public listener: 1.3 only. A client
// certificate is requested and never required, because API access rules decide
// later who needs one, and from which CA.
func TLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequestClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
	}
}

// The lifetimes of generated certificates. The listener's is generated at each
// start.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	listenerLife  = 365 * 24 * time.Hour
)

// AutoCertificate issues a certificate for the names (hosts or addresses) from
// the region's own certificate authority, which is kept in dir and created on
// first use. It returns the file that clients must trust.
func AutoCertificate(dir string, names []string, now time.Time, random io.Reader) (cert tls.Certificate, caFile string, err error) {
	caFile, keyFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	ca, err := tls.LoadX509KeyPair(caFile, keyFile)
	if errors.Is(err, os.ErrNotExist) {
		if err = makeAuthority(dir, caFile, keyFile, now, random); err == nil {
			ca, err = tls.LoadX509KeyPair(caFile, keyFile)
		}
	}
	if err != nil {
		return cert, "", fmt.Errorf("the region's own certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, der, err := issue(template, listenerLife, ca.Leaf, ca.PrivateKey, now, random)
	if err != nil {
		return cert, "", fmt.Errorf("issuing the listener's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.Certificate[0]}, PrivateKey: key}, caFile, nil
}

func makeAuthority(dir, caFile, keyFile string, now time.Time, random io.Reader) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, der, err := issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "Bastide region authority"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}, authorityLife, nil, nil, now, random)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: a start that is cut short in between leaves no
	// certificate without its key.
	return errors.Join(
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
		os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
	)
}

// issue generates a key and a certificate for it, signed by a parent, or
// self-signed if there is none.
func issue(template *x509.Certificate, life time.Duration, parent *x509.Certificate, parentKey any, now time.Time,
	random io.Reader) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, nil, err
	}
	serial := make([]byte, 16)
	if _, err := io.ReadFull(random, serial); err != nil {
		return nil, nil, err
	}
	serial[0] &= 0x7f // serial numbers are positive
	template.SerialNumber = new(big.Int).SetBytes(serial)
	// An hour back, for clients whose clock is behind.
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(life)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(random, template, parent, key.Public(), parentKey)
	return key, der, err
}
