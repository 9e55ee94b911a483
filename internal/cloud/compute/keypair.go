package compute

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Keypair is a key that opens VMs. Only its public half is kept.
type Keypair struct {
	// The fingerprint of the public key: MD5, in hexadecimal with colons.
	KeypairFingerprint string
	KeypairId          id.Keypair // The ID of the keypair.
	KeypairName        string     // The name of the keypair, unique in the account.
	KeypairType        string     // The type of the key, such as `ssh-rsa`.
	Tags               []api.Tag  // The tags of the keypair.

	PublicKey string `wire:"-"` // as a line of authorized_keys
}

// Keypairs are the keypairs of the region.
var Keypairs = &resource.Kind[Keypair, id.Keypair]{
	Name:     "Keypair",
	Tag:      "keypair",
	NotFound: apierror.KeypairNotFound,
	InUse:    apierror.InUse,
	Unique:   []string{"KeypairName"},
	Conflict: apierror.KeypairNameTaken,
}

func keypairActions() []api.Action {
	r := api.NewResource(Keypairs, api.Plain[Keypair])
	return []api.Action{
		api.DoPrepared("Keypair", prepareKeypair, createKeypair),
		api.Read[ReadKeypairsRequest](r),
		api.Command("Keypair", deleteKeypair),
	}
}

// KeypairCreated is a keypair as the answer to its creation shows it.
type KeypairCreated struct {
	// The fingerprint of the public key: MD5, in hexadecimal with colons.
	KeypairFingerprint string
	KeypairId          id.Keypair // The ID of the keypair.
	KeypairName        string     // The name of the keypair, unique in the account.
	KeypairType        string     // The type of the key, such as `ssh-rsa`.
	// The private half, in PEM form, unless the keypair was imported. It is kept nowhere and
	// never shown again.
	PrivateKey string    `wire:"omitempty"`
	Tags       []api.Tag // The tags of the keypair.
}

// KeypairName is the name of a keypair that is to be made.
type KeypairName string

// maxKeypairName is how many characters a name has at most.
const maxKeypairName = 255

// Check reports a name that no keypair can have.
func (n KeypairName) Check() error {
	if len(n) == 0 || len(n) > maxKeypairName {
		return apierror.InvalidKeypairName.Errorf("The KeypairName has %[2]d characters. It must have 1 to %[1]d.", maxKeypairName, len(n))
	}
	for _, c := range []byte(n) {
		if c < ' ' || c > '~' {
			return apierror.InvalidKeypairName.Errorf("The name of a keypair is made of printable ASCII characters, and %q is not.", n)
		}
	}
	return nil
}

// CreateKeypairRequest makes a keypair of 2,048 bits RSA, or imports the public
// key of one that was made elsewhere.
type CreateKeypairRequest struct {
	// A name that no other keypair of the account has, of 1 to 255 printable ASCII characters.
	KeypairName KeypairName `api:"required"`
	// The public key to import: RSA of at least 2,048 bits, Ed25519, or ECDSA of 256, 384 or
	// 521 bits, in OpenSSH, RFC 4716, PEM or PKCS #8 form, as it is or in Base64.
	PublicKey string
}

// CreateKeypairResponse has the keypair.
type CreateKeypairResponse struct {
	Keypair *KeypairCreated // The keypair.
}

// halves are a keypair before it has a name: the private one only if it was made
// here.
type halves struct {
	public  publicKey
	private string
}

// createdBits is the length of the keys that the real service makes.
const createdBits = 2048

// prepareKeypair reads the public key, or makes a pair. Go takes the random for
// an RSA key from the machine, whatever source it is given: the keys are the one
// thing that a region with a seed does not repeat.
func prepareKeypair(tx *resource.Tx, req *CreateKeypairRequest) (h halves, err error) {
	if req.PublicKey != "" {
		h.public, err = readPublicKey(req.PublicKey)
		return h, err
	}
	private, err := rsa.GenerateKey(tx.Rand(), createdBits)
	if err != nil {
		return h, err
	}
	h.private = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
	h.public.PublicKey, err = ssh.NewPublicKey(&private.PublicKey)
	return h, err
}

func createKeypair(tx *resource.Tx, req *CreateKeypairRequest, h halves) (*CreateKeypairResponse, error) {
	k := &Keypair{
		KeypairFingerprint: ssh.FingerprintLegacyMD5(h.public),
		KeypairName:        string(req.KeypairName),
		KeypairType:        h.public.Type(),
		PublicKey:          h.public.line(),
	}
	if err := Keypairs.Insert(tx, k); err != nil {
		return nil, err
	}
	return &CreateKeypairResponse{&KeypairCreated{
		KeypairFingerprint: k.KeypairFingerprint, KeypairId: k.KeypairId, KeypairName: k.KeypairName, KeypairType: k.KeypairType,
		PrivateKey: h.private,
	}}, nil
}

// ReadKeypairsRequest lists keypairs.
type ReadKeypairsRequest struct {
	Filters *FiltersKeypair // Which keypairs to list; all of them if absent.
	api.Page
}

// FiltersKeypair selects keypairs.
type FiltersKeypair struct {
	KeypairFingerprints []string     // The fingerprints of the keypairs.
	KeypairIds          []id.Keypair // The IDs of the keypairs.
	KeypairNames        []string     // The names of the keypairs.
	// The types of the keypairs: `ssh-rsa`, `ssh-ed25519`, `ecdsa-sha2-nistp256`,
	// `ecdsa-sha2-nistp384` or `ecdsa-sha2-nistp521`.
	KeypairTypes []string
	api.TagFilters
}

// DeleteKeypairRequest deletes a keypair. The VMs that were made with it still
// open to it.
type DeleteKeypairRequest struct {
	KeypairId   id.Keypair // The ID of the keypair.
	KeypairName string     // The name of the keypair. The ID or the name is required.
}

func deleteKeypair(tx *resource.Tx, req *DeleteKeypairRequest) error {
	k, err := req.keypair(tx)
	if err != nil {
		return err
	}
	return Keypairs.Delete(tx, k)
}

// keypair finds the keypair that a request is about.
func (req *DeleteKeypairRequest) keypair(tx *resource.Tx) (*Keypair, error) {
	switch {
	case req.KeypairId == "" && req.KeypairName == "":
		return nil, apierror.MissingParameter.Errorf("KeypairId or KeypairName is required.")
	case req.KeypairId == "":
		return keypairNamed(tx, req.KeypairName)
	}
	k, err := Keypairs.Get(tx, req.KeypairId)
	if err == nil && req.KeypairName != "" && req.KeypairName != k.KeypairName {
		err = apierror.InvalidParameter.Errorf(
			"KeypairName '%.255s' and KeypairId %s name different keypairs. Give one of them.", req.KeypairName, req.KeypairId)
	}
	return k, err
}

// keypairNamed finds a keypair of the account by its name.
func keypairNamed(tx *resource.Tx, name string) (*Keypair, error) {
	for k := range Keypairs.Where(tx, "KeypairName", name) {
		return k, nil
	}
	return nil, apierror.KeypairNotFound.NotFound("KeypairName", name)
}
