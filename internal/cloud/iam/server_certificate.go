package iam

import (
	"regexp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// ServerCertificate is a certificate with its private key, by which a load
// balancer proves to its clients who it is. The key is never shown.
type ServerCertificate struct {
	ExpirationDate api.DateTime         // When the certificate expires (UTC).
	Id             id.ServerCertificate // The ID of the server certificate.
	Name           CertificateName      // The name of the server certificate, unique in the account.
	Orn            string               `json:"-"` // The OUTSCALE Resource Name (ORN) of the server certificate.
	Path           Path                 // The path to the server certificate.
	UploadDate     api.DateTime         // When the server certificate was uploaded (UTC).

	// Body is the certificate and Chain its intermediate authorities, both in PEM
	// format as they were given.
	Body  string `wire:"-"`
	Chain string `wire:"-"`
	// PrivateKey is the key in PEM format, as it was given.
	PrivateKey resource.Secret `wire:"-"`
}

// ServerCertificates are the server certificates of an account. One that a
// listener uses stays.
var ServerCertificates = &resource.Kind[ServerCertificate, id.ServerCertificate]{
	Name: "ServerCertificate", NotFound: apierror.ServerCertificateNotFound,
	Unique: []string{"Name"}, Conflict: apierror.AlreadyExists,
}

// maxServerCertificates bounds the server certificates of an account. The real
// number is not published.
const maxServerCertificates = 100

func serverCertificateActions() []api.Action {
	return []api.Action{
		api.DoPrepared("ServerCertificate", prepareServerCertificate, createServerCertificate),
		api.Read[ReadServerCertificatesRequest](api.NewResource(ServerCertificates, viewServerCertificate)),
		api.Do("ServerCertificate", updateServerCertificate),
		api.Command("ServerCertificate", deleteServerCertificate),
	}
}

// ORN is the resource name of a certificate of the transaction's account.
func (c *ServerCertificate) ORN(tx *resource.Tx) string {
	return ornPrefix(tx) + string(c.Path) + string(c.Name)
}

// ornPrefix begins the resource names of the account's server certificates.
func ornPrefix(tx *resource.Tx) string {
	return "orn:ows:idauth::" + tx.Account() + ":server-certificate"
}

var certificateORNs = regexp.MustCompile(`^orn:ows:idauth::[0-9]{12}:server-certificate(/[A-Za-z0-9_/]*)?/([A-Za-z0-9+=,.@_-]{1,128})$`)

// ServerCertificateByORN finds a server certificate of the account by its resource
// name. One of another account does not exist.
func ServerCertificateByORN(tx *resource.Tx, orn string) (*ServerCertificate, error) {
	parts := certificateORNs.FindStringSubmatch(orn)
	if parts == nil {
		return nil, apierror.InvalidCertificateOrn.Errorf(
			"The ServerCertificateId '%.200s' is not the ORN of a server certificate: orn:ows:idauth::ACCOUNT:server-certificate/PATH/NAME.", orn)
	}
	for c := range ServerCertificates.Where(tx, "Name", parts[2]) {
		if c.ORN(tx) == orn {
			return c, nil
		}
	}
	return nil, apierror.InvalidListenerCertificate.NotFound("ServerCertificateId", orn)
}

func viewServerCertificate(tx *resource.Tx, c *ServerCertificate) *ServerCertificate {
	c.Orn = c.ORN(tx)
	return c
}

// CertificateName is the name of a server certificate: 1 to 128 alphanumeric
// characters and + = , . @ - _.
type CertificateName string

const maxCertificateName = 128

var certificateNames = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]+$`)

// Check reports a name that no server certificate can have.
func (n CertificateName) Check() error {
	switch {
	case n == "" || len(n) > maxCertificateName:
		return apierror.InvalidLength.Errorf("A server certificate's name has from 1 to %d characters, and not %d.", maxCertificateName, len(n))
	case !certificateNames.MatchString(string(n)):
		return apierror.InvalidName.Errorf("'%s' is not a name of alphanumeric characters and + = , . @ - _.", string(n))
	}
	return nil
}

// serverCertificateNamed finds the server certificate of a name.
func serverCertificateNamed(tx *resource.Tx, name string) (*ServerCertificate, error) {
	for c := range ServerCertificates.Where(tx, "Name", name) {
		return c, nil
	}
	return nil, apierror.ServerCertificateNotFound.NotFound("Name", name)
}

// CreateServerCertificateRequest uploads a server certificate and its private key.
type CreateServerCertificateRequest struct {
	// The X.509 certificate, in PEM format. It has not expired.
	Body string `api:"required"`
	// The certificates of the intermediate authorities, in PEM format and in order: first the authority
	// of the certificate, then the authority of the first one, and so on. None of them has expired.
	Chain string
	// A name that no other server certificate of the account has, of 1 to 128 alphanumeric characters
	// and `+` `=` `,` `.` `@` `-` `_`.
	Name CertificateName `api:"required"`
	// The path to the server certificate, `/` by default.
	Path Path
	// The private key of the certificate, in PEM format and without a passphrase: RSA of 2,048 to 8,192
	// bits, or ECDSA of 256, 384 or 521 bits.
	PrivateKey string `api:"required"`
}

// CreateServerCertificateResponse shows the server certificate.
type CreateServerCertificateResponse struct {
	ServerCertificate *ServerCertificate // The server certificate.
}

// prepareServerCertificate reads the certificate, its chain and its key, which
// takes milliseconds.
func prepareServerCertificate(tx *resource.Tx, req *CreateServerCertificateRequest) (*ServerCertificate, error) {
	cert, err := readServerCertificate(req.Body, req.Chain, req.PrivateKey, tx.Now())
	if err != nil {
		return nil, err
	}
	c := &ServerCertificate{
		ExpirationDate: api.At(cert.NotAfter), Name: req.Name, Path: req.Path,
		Body: req.Body, Chain: req.Chain, PrivateKey: resource.Secret(req.PrivateKey),
	}
	if c.Path == "" {
		c.Path = "/"
	}
	return c, nil
}

func createServerCertificate(
	tx *resource.Tx, _ *CreateServerCertificateRequest, prepared *ServerCertificate,
) (*CreateServerCertificateResponse, error) {
	if ServerCertificates.Count(tx) >= maxServerCertificates {
		return nil, apierror.TooManyCertificates.Errorf("An account has at most %d server certificates.", maxServerCertificates)
	}
	c := *prepared // which a second run of the transaction finds as it was
	c.UploadDate = api.At(tx.Now())
	if err := ServerCertificates.Insert(tx, &c); err != nil {
		return nil, err
	}
	return &CreateServerCertificateResponse{viewServerCertificate(tx, &c)}, nil
}

// ReadServerCertificatesRequest asks for the server certificates of the account.
type ReadServerCertificatesRequest struct {
	Filters *FiltersServerCertificate // Which server certificates to list; all of them if absent.
}

// FiltersServerCertificate selects server certificates.
type FiltersServerCertificate struct {
	Paths []string // The paths to the server certificates.
}

// UpdateServerCertificateRequest changes the name or the path of a server
// certificate, and with them its ORN. Listeners that use it go on with it.
type UpdateServerCertificateRequest struct {
	Name    string          `api:"required"` // The present name of the server certificate.
	NewName CertificateName // A new name, which no other server certificate of the account has.
	NewPath Path            // A new path.
}

// UpdateServerCertificateResponse shows the server certificate as it has become.
type UpdateServerCertificateResponse struct {
	ServerCertificate *ServerCertificate // The server certificate.
}

func updateServerCertificate(tx *resource.Tx, req *UpdateServerCertificateRequest) (*UpdateServerCertificateResponse, error) {
	c, err := serverCertificateNamed(tx, req.Name)
	if err != nil {
		return nil, err
	}
	if req.NewName != "" {
		c.Name = req.NewName
	}
	if req.NewPath != "" {
		c.Path = req.NewPath
	}
	if err := ServerCertificates.Put(tx, c); err != nil {
		return nil, err
	}
	shown := *c
	return &UpdateServerCertificateResponse{viewServerCertificate(tx, &shown)}, nil
}

// DeleteServerCertificateRequest deletes a server certificate that no listener
// uses.
type DeleteServerCertificateRequest struct {
	Name string `api:"required"` // The name of the server certificate.
}

func deleteServerCertificate(tx *resource.Tx, req *DeleteServerCertificateRequest) error {
	c, err := serverCertificateNamed(tx, req.Name)
	if err != nil {
		return err
	}
	return ServerCertificates.Delete(tx, c)
}
