package acceptance

import (
	"maps"
	"strconv"
	"sync"
)

func init() {
	maps.Copy(examples, map[string]any{
		"iam.CertificateName":                       func(w *testRegion) any { return w.fresh() },
		"CreateServerCertificateRequest.Body":       func(*testRegion) any { return someSite().body },
		"CreateServerCertificateRequest.Chain":      func(*testRegion) any { return someSite().chain },
		"CreateServerCertificateRequest.PrivateKey": func(*testRegion) any { return someSite().key },
	})
}

// site is a server certificate, the authority that issued it, and its key, in PEM
// format.
type site struct{ body, chain, key string }

var someSite = sync.OnceValue(func() site {
	authority := newAuthority(panicker{}, "Example authority")
	cert := authority.issue(panicker{}, "www.example.com")
	return site{certificatePem(cert), authority.pem(), keyPem(panicker{}, cert)}
})

// equipBalancers makes server certificates: one that a listener uses and one that
// nothing uses.
func (w *testRegion) equipBalancers(name string, made making, has belongings) {
	w.t.Helper()
	s := someSite()
	certificate := func(name string) (orn string) {
		return made("ServerCertificate.Orn", "CreateServerCertificate", `{"Name": %q, "Path": "/sites/", "Body": %s, "Chain": %s, "PrivateKey": %s}`,
			name, strconv.Quote(s.body), strconv.Quote(s.chain), strconv.Quote(s.key))
	}
	certificate(name + "-idle")
	maps.Copy(has, belongings{
		"UpdateServerCertificateRequest.Name": name + "-idle",
		"DeleteServerCertificateRequest.Name": name + "-idle",
	})
}
