package iam

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// issued is a certificate and its key.
type issued struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// body is the certificate in PEM format.
func (c issued) body() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))
}

// pkcs8 is the key in PEM format.
func (c issued) pkcs8(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return block("PRIVATE KEY", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issueBy makes a certificate for a key, signed by an authority or, without one, by
// itself. It expires a day after the start.
func issueBy(t testing.TB, authority *issued, name string, key crypto.Signer, changes ...func(*x509.Certificate)) issued {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(24 * time.Hour),
	}
	for _, change := range changes {
		change(template)
	}
	parent, signer := template, key
	if authority != nil {
		parent, signer = authority.cert, authority.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issued{cert, key}
}

func ecdsaKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func asCa(c *x509.Certificate)    { c.IsCA, c.BasicConstraintsValid = true, true }
func expired(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) }

// upload is the body of a request that uploads a certificate.
func upload(name, body, chain, key string) string {
	return fmt.Sprintf(`{"Name": %q, "Body": %s, "Chain": %s, "PrivateKey": %s}`, name, quote(body), quote(chain), quote(key))
}

func TestServerCertificate(t *testing.T) {
	t.Parallel()
	r := setup(t)
	prefix := "orn:ows:idauth::" + string(r.account.AccountId) + ":server-certificate"
	site := issueBy(t, nil, "www.example.com", ecdsaKey(t, elliptic.P256()))
	body, key := site.body(), site.pkcs8(t)

	made := r.call("CreateServerCertificate", upload("web", body, "", key))
	made.is(
		"ServerCertificate.Name", `"web"`, "ServerCertificate.Path", `"/"`, "ServerCertificate.Orn", quote(prefix+"/web"),
		"ServerCertificate.ExpirationDate", `"2026-11-21T10:04:05.000Z"`, "ServerCertificate.UploadDate", `"2026-11-20T10:04:05.000Z"`,
		"ServerCertificate.Body", "", "ServerCertificate.Chain", "", "ServerCertificate.PrivateKey", "",
	)
	if strings.Contains(made.text, "PRIVATE") {
		t.Errorf("the answer has the key in it: %s", made.text)
	}
	id := made.get("ServerCertificate.Id")

	// The same certificate may have several names, and a name is one certificate's.
	r.call("CreateServerCertificate", strings.Replace(upload("shop", body, "", key), "{", `{"Path": "/shops/", `, 1)).
		is("ServerCertificate.Orn", quote(prefix+"/shops/shop"), "ServerCertificate.Path", `"/shops/"`)
	r.refused("CreateServerCertificate", upload("web", body, "", key), apierror.AlreadyExists, "web")
	for filters, want := range map[string]string{
		`{}`: `["web","shop"]`, `{"Filters": {"Paths": ["/shops/"]}}`: `["shop"]`, `{"Filters": {"Paths": ["/sho"]}}`: `[]`,
	} {
		if got := ids(r.call("ReadServerCertificates", filters), "ServerCertificates", "Name"); got != want {
			t.Errorf("ReadServerCertificates %s: %s, want %s", filters, got, want)
		}
	}

	// Its name and path can be changed, and its ORN with them, but not its ID.
	r.call("UpdateServerCertificate", `{"Name": "web", "NewName": "www", "NewPath": "/sites/"}`).
		is("ServerCertificate.Orn", quote(prefix+"/sites/www"), "ServerCertificate.Id", quote(id))
	r.call("UpdateServerCertificate", `{"Name": "www"}`).is("ServerCertificate.Path", `"/sites/"`)
	r.refused("UpdateServerCertificate", `{"Name": "www", "NewName": "shop"}`, apierror.AlreadyExists, "shop")
	r.refused("UpdateServerCertificate", `{"Name": "www", "NewName": "a b"}`, apierror.InvalidName, "a b")
	r.refused("UpdateServerCertificate", `{"Name": "web"}`, apierror.ServerCertificateNotFound, "web")
	r.refused("DeleteServerCertificate", `{"Name": "web"}`, apierror.ServerCertificateNotFound, "web")
	r.call("DeleteServerCertificate", `{"Name": "shop"}`)
	if got := ids(r.call("ReadServerCertificates", `{}`), "ServerCertificates", "Name"); got != `["www"]` {
		t.Errorf("after the deletion of shop: %s", got)
	}

	// Listeners find it by its ORN.
	r.view(func(tx *resource.Tx) {
		if c, err := ServerCertificateByORN(tx, prefix+"/sites/www"); err != nil || string(c.Id) != id || string(c.PrivateKey) != key {
			t.Errorf("by its ORN, %v is found: %v", c, err)
		}
		for orn, want := range map[string]apierror.Code{
			prefix + "/www": apierror.InvalidListenerCertificate, prefix + "/sites/web": apierror.InvalidListenerCertificate,
			"orn:ows:idauth::000000000009:server-certificate/sites/www": apierror.InvalidListenerCertificate,
			"www": apierror.InvalidCertificateOrn, "arn:aws:iam::1:server-certificate/www": apierror.InvalidCertificateOrn,
			prefix + "/": apierror.InvalidCertificateOrn,
		} {
			if _, err := ServerCertificateByORN(tx, orn); !want.Is(err) {
				t.Errorf("%s: %v, want %s", orn, err, want)
			}
		}
	})
}

// A private key is sealed in the journal, and read back from there.
func TestServerCertificateKeyIsSealed(t *testing.T) {
	t.Parallel()
	r := setup(t)
	site := issueBy(t, nil, "www.example.com", ecdsaKey(t, elliptic.P256()))
	r.call("CreateServerCertificate", upload("web", site.body(), "", site.pkcs8(t)))
	stored := 0
	r.journal.mu.Lock()
	for place, row := range r.journal.rows {
		if place.Kind != ServerCertificates.Name {
			continue
		}
		stored++
		if strings.Contains(string(row.Doc), "PRIVATE") {
			t.Errorf("the key is in the journal: %s", row.Doc)
		}
	}
	r.journal.mu.Unlock()
	if stored != 1 {
		t.Errorf("the journal has %d server certificates", stored)
	}
	r.DB.Close()
	r.open(r.Clock)
	r.view(func(tx *resource.Tx) {
		for c := range ServerCertificates.All(tx) {
			if string(c.PrivateKey) != site.pkcs8(t) {
				t.Error("after a restart, the key is another one")
			}
		}
	})
}

func TestServerCertificateKeys(t *testing.T) {
	t.Parallel()
	r := setup(t)
	long, small := rsaKey(t, 2048), ecdsaKey(t, elliptic.P384())
	sec1, err := x509.MarshalECPrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(long))
	for name, tt := range map[string]struct {
		key  crypto.Signer
		text string
	}{
		"RSA-PKCS1":  {long, pkcs1},
		"RSA-PKCS8":  {long, issued{key: long}.pkcs8(t)},
		"ECDSA-SEC1": {small, block("EC PRIVATE KEY", sec1)},
		"parameters": {small, block("EC PARAMETERS", []byte{6, 5, 43, 129, 4, 0, 34}) + block("EC PRIVATE KEY", sec1)},
		"a-tail":     {long, "\n" + pkcs1 + "\n\n"},
	} {
		r.call("CreateServerCertificate", upload(name, issueBy(t, nil, name, tt.key).body(), "", tt.text))
	}

	site := issueBy(t, nil, "www.example.com", long)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	locked := &pem.Block{
		Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("key"),
	}
	for name, tt := range map[string]struct {
		text string
		code apierror.Code
		word string
	}{
		"no PEM":            {"hello", apierror.InvalidKey, "PEM"},
		"a certificate":     {site.body(), apierror.InvalidKey, "PrivateKey"},
		"junk":              {block("RSA PRIVATE KEY", []byte("junk")), apierror.InvalidKey, "BEGIN RSA PRIVATE KEY"},
		"two keys":          {pkcs1 + pkcs1, apierror.InvalidKey, "one"},
		"with a passphrase": {string(pem.EncodeToMemory(locked)), apierror.InvalidKey, "passphrase"},
		"sealed PKCS #8":    {block("ENCRYPTED PRIVATE KEY", []byte("key")), apierror.InvalidKey, "passphrase"},
		"another's":         {issued{key: small}.pkcs8(t), apierror.InvalidKey, "www.example.com"},
		"another RSA key":   {issued{key: rsaKey(t, 2048)}.pkcs8(t), apierror.InvalidKey, "www.example.com"},
		"short":             {issued{key: rsaKey(t, 1024)}.pkcs8(t), apierror.InvalidKeySize, "1024"},
		"a small curve":     {issued{key: ecdsaKey(t, elliptic.P224())}.pkcs8(t), apierror.InvalidKeySize, "P-224"},
		"Ed25519":           {issued{key: private}.pkcs8(t), apierror.InvalidKey, "RSA and ECDSA"},
		"long":              {strings.Repeat("x", maxCertificateBytes+1), apierror.InvalidLength, "16384"},
	} {
		t.Run(name, func(t *testing.T) {
			r.refused("CreateServerCertificate", upload("bad", site.body(), "", tt.text), tt.code, tt.word)
		})
	}
}

func TestServerCertificateChain(t *testing.T) {
	t.Parallel()
	r := setup(t)
	key := ecdsaKey(t, elliptic.P256())
	root := issueBy(t, nil, "root", ecdsaKey(t, elliptic.P256()), asCa)
	upper := issueBy(t, &root, "upper", ecdsaKey(t, elliptic.P256()), asCa)
	lower := issueBy(t, &upper, "lower", ecdsaKey(t, elliptic.P256()), asCa)
	old := issueBy(t, &upper, "old", ecdsaKey(t, elliptic.P256()), asCa, expired)
	plain := issueBy(t, &upper, "plain", ecdsaKey(t, elliptic.P256()))
	site := issueBy(t, &lower, "www.example.com", key)

	r.call("CreateServerCertificate", upload("whole", site.body(), lower.body()+upper.body()+root.body(), site.pkcs8(t)))
	r.call("CreateServerCertificate", upload("without-root", site.body(), lower.body()+"\n"+upper.body()+"\n", site.pkcs8(t)))
	r.call("CreateServerCertificate", upload("alone", site.body(), " \n", site.pkcs8(t)))

	tooLong := strings.Repeat(lower.body(), maxChainLength+1)
	for name, tt := range map[string]struct {
		body, chain string
		code        apierror.Code
		words       []string
	}{
		"expired": {issueBy(t, &lower, "late", key, expired).body(), "", apierror.InvalidCertificate, []string{"late", "2026-11-20"}},
		"expired authority": {
			issueBy(t, &old, "www.example.com", key).body(), old.body() + upper.body(), apierror.InvalidCertificate, []string{"old", "expired"},
		},
		"upside down":         {site.body(), upper.body() + lower.body(), apierror.InvalidCertificate, []string{"out of order", "upper"}},
		"a gap":               {site.body(), lower.body() + root.body(), apierror.InvalidCertificate, []string{"out of order", "root"}},
		"not the authority":   {site.body(), root.body(), apierror.InvalidCertificate, []string{"out of order"}},
		"by no authority":     {issueBy(t, &plain, "www.example.com", key).body(), plain.body(), apierror.InvalidCertificate, []string{"plain"}},
		"no PEM":              {"hello", "", apierror.InvalidCertificate, []string{"Body"}},
		"empty":               {"", "", apierror.InvalidCertificate, []string{"Body"}},
		"a key":               {site.pkcs8(t), "", apierror.InvalidCertificate, []string{"Body"}},
		"junk":                {block("CERTIFICATE", []byte("junk")), "", apierror.InvalidCertificate, []string{"Body", "number 1"}},
		"chain in the body":   {site.body() + lower.body(), "", apierror.InvalidCertificate, []string{"Chain"}},
		"no PEM in the chain": {site.body(), lower.body() + "tail", apierror.InvalidCertificate, []string{"Chain"}},
		"a long chain":        {site.body(), tooLong, apierror.InvalidCertificate, []string{"Chain", "10"}},
		"a long body":         {strings.Repeat("x", maxCertificateBytes+1), "", apierror.InvalidLength, []string{"Body", "16384"}},
		"a huge chain":        {site.body(), strings.Repeat("x", maxChainBytes+1), apierror.InvalidLength, []string{"Chain"}},
	} {
		t.Run(name, func(t *testing.T) {
			r.refused("CreateServerCertificate", upload("bad", tt.body, tt.chain, site.pkcs8(t)), tt.code, tt.words...)
		})
	}
	for name, code := range map[string]apierror.Code{
		"": apierror.InvalidLength, strings.Repeat("x", 129): apierror.InvalidLength, "a b": apierror.InvalidName, "a/b": apierror.InvalidName,
	} {
		r.refused("CreateServerCertificate", upload(name, site.body(), "", site.pkcs8(t)), code, "Name")
	}
	r.call("CreateServerCertificate", upload(strings.Repeat("x", 128), site.body(), "", site.pkcs8(t)))
	r.refused("CreateServerCertificate", `{"Name": "web", "PrivateKey": "x"}`, apierror.MissingParameter, "Body")

	// What has expired since it was uploaded is kept.
	r.Clock.Advance(48 * time.Hour)
	r.refused("CreateServerCertificate", upload("late", site.body(), "", site.pkcs8(t)), apierror.InvalidCertificate, "expired")
	r.call("UpdateServerCertificate", `{"Name": "alone", "NewPath": "/old/"}`)
}

func TestServerCertificatesAreBounded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	site := issueBy(t, nil, "www.example.com", ecdsaKey(t, elliptic.P256()))
	for i := range maxServerCertificates {
		r.call("CreateServerCertificate", upload(fmt.Sprintf("web-%d", i), site.body(), "", site.pkcs8(t)))
	}
	r.refused("CreateServerCertificate", upload("one-more", site.body(), "", site.pkcs8(t)), apierror.TooManyCertificates, "100")
}

// Whatever is uploaded is read or refused as the caller's mistake.
func FuzzServerCertificate(f *testing.F) {
	authority := issueBy(f, nil, "root", ecdsaKey(f, elliptic.P256()), asCa)
	site := issueBy(f, &authority, "www.example.com", ecdsaKey(f, elliptic.P256()))
	f.Add(site.body(), authority.body(), site.pkcs8(f))
	f.Add("-----BEGIN CERTIFICATE-----\n", "\n", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n-----END RSA PRIVATE KEY-----\n")
	f.Fuzz(func(t *testing.T, body, chain, key string) {
		cert, err := readServerCertificate(body, chain, key, start)
		if (err == nil) != (cert != nil) || err != nil && apierror.From(err).Code == apierror.Internal {
			t.Errorf("got %v and %v", cert, err)
		}
	})
}
