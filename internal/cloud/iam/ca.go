package iam

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Ca is a client certificate authority: API access rules that name it admit
// the clients whose certificates it signed.
type Ca struct {
	// The SHA-1 of the certificate, as 40 hexadecimal digits. Equal certificates have equal
	// ones.
	CaFingerprint string
	CaId          id.Ca   // The ID of the CA.
	Description   *string // A description, if one was given.

	Pem string `wire:"-"` // The certificate, as it was given.
}

// Cas are the client certificate authorities of an account. One that an API
// access rule names stays: without it the rule would admit nobody.
var Cas = &resource.Kind[Ca, id.Ca]{Name: "Ca"}

// maxCas bounds the CAs of an account: far more than one needs, far fewer than
// the region would feel.
const maxCas = 100

func caActions() []api.Action {
	r := api.NewResource(Cas, api.Plain)
	return []api.Action{
		api.Create(r, createCa),
		api.Read[ReadCasRequest](r),
		api.Update(r, updateCa),
		api.Delete[DeleteCaRequest](r),
	}
}

// Certificate is the certificate of the CA.
func (ca *Ca) Certificate() (*x509.Certificate, error) { return parseCa(ca.Pem) }

// parseCa reads the one certificate of a PEM text, which must be one that may
// sign others. It may have expired: the clients' certificates then have too.
func parseCa(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, apierror.InvalidCertificate.Errorf("CaPem is not a certificate in PEM format.")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, apierror.InvalidCertificate.Errorf("CaPem has more in it than one certificate.")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, apierror.InvalidCertificate.Errorf("CaPem is not an X.509 certificate.")
	}
	signs := cert.KeyUsage == 0 || cert.KeyUsage&x509.KeyUsageCertSign != 0
	if !cert.BasicConstraintsValid || !cert.IsCA || !signs {
		return nil, apierror.InvalidCertificate.Errorf("CaPem is not the certificate of a certificate authority.")
	}
	return cert, nil
}

// CreateCaRequest asks to register a client certificate authority. The same
// certificate may be registered more than once.
type CreateCaRequest struct {
	CaPem       string  `api:"required"` // The certificate of the CA, in PEM format.
	Description *string // A description.
}

func createCa(tx *resource.Tx, req *CreateCaRequest) (*Ca, error) {
	cert, err := parseCa(req.CaPem)
	if err != nil {
		return nil, err
	}
	if Cas.Count(tx) >= maxCas {
		return nil, apierror.TooManyCertificates.Errorf("An account has at most %d CAs.", maxCas)
	}
	// A name for the certificate, not a proof: that it is SHA-1 harms nobody.
	fingerprint := sha1.Sum(cert.Raw)
	return &Ca{CaFingerprint: hex.EncodeToString(fingerprint[:]), Description: req.Description, Pem: req.CaPem}, nil
}

// ReadCasRequest asks for the client certificate authorities of the account.
type ReadCasRequest struct {
	Filters *FiltersCa // What to select by; all CAs by default.
}

// FiltersCa selects client certificate authorities.
type FiltersCa struct {
	CaFingerprints []string // The fingerprints of the certificates.
	CaIds          []id.Ca  // The IDs of the CAs.
	// The descriptions of the CAs, in which `*` stands for any text.
	Descriptions []string `match:"glob"`
}

// UpdateCaRequest asks to change the description of a client certificate
// authority. Another certificate is another CA.
type UpdateCaRequest struct {
	CaId        id.Ca   `api:"required"` // The ID of the CA.
	Description *string // A new description; the present one stays if none is given.
}

func updateCa(_ *resource.Tx, ca *Ca, req *UpdateCaRequest) error {
	if req.Description != nil {
		ca.Description = req.Description
	}
	return nil
}

// DeleteCaRequest asks to delete a client certificate authority that no API
// access rule names.
type DeleteCaRequest struct {
	CaId id.Ca `api:"required"` // The ID of the CA.
}
