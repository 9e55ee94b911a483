package iam

import "github.com/bastide-cloud/bastide/internal/api"

// Server certificates are not built yet: there are none, and none can be made.
// They can be read, because tools list them when they look for what is left.
func serverCertificateActions() []api.Action {
	return []api.Action{api.Read[ReadServerCertificatesRequest](api.Fixed[ServerCertificate]("ServerCertificate", "ServerCertificates", nil))}
}

// ServerCertificate is a certificate that a load balancer shows.
type ServerCertificate struct {
	ExpirationDate api.DateTime // When the certificate expires (UTC).
	Id             string       // The ID of the certificate.
	Name           string       // The name of the certificate, unique in the account.
	Orn            string       // The resource name of the certificate.
	Path           Path         // Where in the organization the certificate is.
	UploadDate     api.DateTime // When the certificate was uploaded (UTC).
}

// ReadServerCertificatesRequest asks for server certificates, of which there are
// none yet.
type ReadServerCertificatesRequest struct {
	Filters *FiltersServerCertificate // One or more filters.
}

// FiltersServerCertificate selects server certificates.
type FiltersServerCertificate struct {
	Paths []string // The paths of the certificates.
}
