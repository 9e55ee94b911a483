package compute

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// publicKey is the public half of a keypair, with what its owner noted of it.
type publicKey struct {
	ssh.PublicKey
	comment string
}

// line is the key as a line of authorized_keys.
func (k publicKey) line() string {
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k)), "\n")
	// A comment that comes in Base64 can hold anything, and it is one line of a
	// file that decides who may enter.
	comment := strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, k.comment))
	if comment == "" {
		return line
	}
	return line + " " + comment
}

// keypairTypes are the types of keys that VMs can be opened with.
var keypairTypes = []string{ssh.KeyAlgoRSA, ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521}

// The sizes of RSA keys, in bits: the minimum of the real service, and the maximum
// of the SSH library.
const minRSA, maxRSA = 2048, 8192

// readPublicKey reads a public key in any of the forms in which tools write
// them, as it is or in Base64.
func readPublicKey(text string) (publicKey, error) {
	k, ok := parsePublicKey([]byte(text))
	if !ok {
		if raw, err := base64.StdEncoding.DecodeString(withoutSpace(text)); err == nil {
			k, ok = parsePublicKey(raw)
		}
	}
	// No text that was given is repeated: it may be a private key by mistake.
	if !ok {
		return k, apierror.InvalidKey.Errorf(
			"PublicKey is not a public key in OpenSSH, RFC 4716, PEM or PKCS #8 form, nor one of them in Base64.")
	}
	if !slices.Contains(keypairTypes, k.Type()) {
		return k, apierror.InvalidKey.Errorf("PublicKey has the type %s, which is not one of %s.", k.Type(), strings.Join(keypairTypes, ", "))
	}
	if bits := k.rsaBits(); bits != 0 && (bits < minRSA || bits > maxRSA) {
		return k, apierror.InvalidKeySize.Errorf("PublicKey is an RSA key of %d bits, and those have between %d and %d.", bits, minRSA, maxRSA)
	}
	return k, nil
}

func withoutSpace(text string) string { return strings.Join(strings.Fields(text), "") }

// rsaBits is the size of an RSA key; 0: it is none.
func (k publicKey) rsaBits() int {
	if c, ok := k.PublicKey.(ssh.CryptoPublicKey); ok {
		if key, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok {
			return key.N.BitLen()
		}
	}
	return 0
}

// parsePublicKey reads a public key that is not in Base64 as a whole.
func parsePublicKey(data []byte) (publicKey, bool) {
	text := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(text, []byte(rfc4716Begin)):
		return parseRFC4716(string(text))
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		block, rest := pem.Decode(text)
		if block == nil || len(bytes.TrimSpace(rest)) > 0 {
			return publicKey{}, false
		}
		return parseDER(block.Bytes)
	}
	// What follows is one key and no file of them. Options before a key restrict
	// those who enter with it, and nothing here would keep them.
	if key, comment, options, rest, err := ssh.ParseAuthorizedKey(text); err == nil && len(options) == 0 && len(rest) == 0 &&
		!bytes.ContainsAny(text, "\r\n") {
		return publicKey{key, comment}, true
	}
	if key, err := ssh.ParsePublicKey(data); err == nil {
		return publicKey{PublicKey: key}, true
	}
	return parseDER(data)
}

// parseDER reads a key as PKCS #8 tools write it, or PKCS #1 ones.
func parseDER(der []byte) (publicKey, bool) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		if key, err = x509.ParsePKCS1PublicKey(der); err != nil {
			return publicKey{}, false
		}
	}
	public, err := ssh.NewPublicKey(key)
	if err != nil {
		return publicKey{}, false
	}
	if large := (publicKey{PublicKey: public}); large.rsaBits() > maxRSA {
		return large, true // refused by its size
	}
	// Not every key that Go reads is one that SSH accepts.
	public, err = ssh.ParsePublicKey(public.Marshal())
	return publicKey{PublicKey: public}, err == nil
}

// The lines around a key in the form of RFC 4716.
const (
	rfc4716Begin = "---- BEGIN SSH2 PUBLIC KEY ----"
	rfc4716End   = "---- END SSH2 PUBLIC KEY ----"
)

// parseRFC4716 reads the form of RFC 4716: headers, of which a backslash at the
// end of a line continues one, and the key in Base64.
func parseRFC4716(text string) (publicKey, bool) {
	var k publicKey
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if lines[0] != rfc4716Begin || lines[len(lines)-1] != rfc4716End {
		return k, false
	}
	lines = lines[1 : len(lines)-1]
	for len(lines) > 0 {
		name, value, ok := strings.Cut(lines[0], ":")
		if !ok {
			break
		}
		for lines = lines[1:]; strings.HasSuffix(value, `\`) && len(lines) > 0; lines = lines[1:] {
			value = strings.TrimSuffix(value, `\`) + lines[0]
		}
		if strings.EqualFold(name, "Comment") {
			k.comment = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	raw, err := base64.StdEncoding.DecodeString(withoutSpace(strings.Join(lines, "")))
	if err != nil {
		return k, false
	}
	k.PublicKey, err = ssh.ParsePublicKey(raw)
	return k, err == nil
}
