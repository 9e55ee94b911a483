package iam

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// The bounds of what is uploaded: far above what certificates have. That of the
// chain is AWS's number of bytes for a certificate, for each of its certificates.
const (
	maxCertificateBytes = 16 << 10
	maxChainLength      = 10
	maxChainBytes       = maxChainLength * maxCertificateBytes
	minRSABits          = 2048
	maxRSABits          = 8192
)

// readServerCertificate reads a certificate in PEM format, and makes sure that the
// chain leads up from it, that nothing of it has expired, and that the private key
// is its own.
func readServerCertificate(body, chain, key string, now time.Time) (*x509.Certificate, error) {
	certs, err := parseCertificates("Body", body, 1)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(chain) != "" {
		authorities, err := parseCertificates("Chain", chain, maxChainLength)
		if err != nil {
			return nil, err
		}
		certs = append(certs, authorities...)
	}
	for i, cert := range certs {
		if !now.Before(cert.NotAfter) {
			date := cert.NotAfter.UTC().Format(time.DateOnly)
			return nil, apierror.InvalidCertificate.Errorf("The certificate of %s expired on %s.", subjectOf(cert), date)
		}
		if i > 0 && certs[i-1].CheckSignatureFrom(cert) != nil {
			return nil, apierror.InvalidCertificate.Errorf(
				"Chain is out of order: %s, its certificate number %d, is not the authority that signed %s.", subjectOf(cert), i, subjectOf(certs[i-1]))
		}
	}
	private, err := parsePrivateKey(key)
	if err != nil {
		return nil, err
	}
	if own, ok := private.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(certs[0].PublicKey) {
		return nil, apierror.InvalidKey.Errorf("PrivateKey is not the key of the certificate of %s.", subjectOf(certs[0]))
	}
	return certs[0], nil
}

// subjectOf is what a refusal calls a certificate.
func subjectOf(cert *x509.Certificate) string {
	if text := cert.Subject.String(); text != "" {
		return "'" + text[:min(len(text), 100)] + "'"
	}
	return "number " + cert.SerialNumber.String()
}

// parseCertificates reads from 1 to most certificates in PEM format.
func parseCertificates(parameter, text string, most int) (certs []*x509.Certificate, err error) {
	if limit := most * maxCertificateBytes; len(text) > limit {
		return nil, apierror.InvalidLength.Errorf("%s has %d bytes: it can have %d.", parameter, len(text), limit)
	}
	for rest := []byte(text); len(certs) == 0 || len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, apierror.InvalidCertificate.Errorf("%s is not certificates in PEM format (BEGIN CERTIFICATE) and nothing else.", parameter)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, apierror.InvalidCertificate.Errorf("%s: certificate number %d is not an X.509 certificate.", parameter, len(certs)+1)
		}
		if certs = append(certs, cert); len(certs) > most {
			return nil, apierror.InvalidCertificate.Errorf(
				"%s has more than %d certificates. The intermediate authorities belong into Chain.", parameter, most)
		}
	}
	return certs, nil
}

// parsePrivateKey reads a private key in PEM format without a passphrase, of one of
// the forms that tools write: PKCS #1, SEC 1 or PKCS #8.
func parsePrivateKey(text string) (crypto.Signer, error) {
	if len(text) > maxCertificateBytes {
		return nil, apierror.InvalidLength.Errorf("PrivateKey has %d bytes: it can have %d.", len(text), maxCertificateBytes)
	}
	block, rest := pem.Decode([]byte(text))
	if block != nil && block.Type == "EC PARAMETERS" { // which openssl writes before the key
		block, rest = pem.Decode(rest)
	}
	switch {
	case block == nil || len(bytes.TrimSpace(rest)) > 0:
		return nil, apierror.InvalidKey.Errorf("PrivateKey is not one private key in PEM format.")
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["Proc-Type"] != "":
		return nil, apierror.InvalidKey.Errorf("PrivateKey is protected by a passphrase: give it without one.")
	}
	private, err := parseKeyBlock(block)
	if err != nil {
		return nil, apierror.InvalidKey.Errorf("PrivateKey is not a private key of RSA (BEGIN RSA PRIVATE KEY) or ECDSA (BEGIN EC PRIVATE KEY).")
	}
	switch private := private.(type) {
	case *rsa.PrivateKey:
		if bits := private.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, apierror.InvalidKeySize.Errorf("PrivateKey has %d bits: RSA keys have from %d to %d.", bits, minRSABits, maxRSABits)
		}
		return private, nil
	case *ecdsa.PrivateKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, private.Curve) {
			name := private.Curve.Params().Name
			return nil, apierror.InvalidKeySize.Errorf("PrivateKey is of the curve %s: ECDSA keys are of P-256, P-384 or P-521.", name)
		}
		return private, nil
	}
	return nil, apierror.InvalidKey.Errorf("PrivateKey is of an algorithm other than RSA and ECDSA.")
}

func parseKeyBlock(block *pem.Block) (crypto.PrivateKey, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}
