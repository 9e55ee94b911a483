package compute

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// written are the keys of testdata, as ssh-keygen wrote them, by file.
func written(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/keys/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no keys: %v", err)
	}
	keys := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		keys[filepath.Base(file)] = string(text)
	}
	return keys
}

// fingerprints are those that ssh-keygen shows, by type.
func fingerprints(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(written(t)["fingerprints.tsv"]) {
		name, print, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[name] = print
	}
	return all
}

func TestCreatedKeypairs(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	k := l.one("Keypair", alice, "CreateKeypair", object{"KeypairName": "made"})
	block, rest := pem.Decode([]byte(k["PrivateKey"].(string)))
	if block == nil || block.Type != "RSA PRIVATE KEY" || len(rest) > 0 {
		t.Fatalf("the private key is no PEM: %v", k)
	}
	private, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || private.N.BitLen() != 2048 {
		t.Fatalf("the private key is not RSA of 2048 bits: %v", err)
	}
	public, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if k["KeypairFingerprint"] != ssh.FingerprintLegacyMD5(public) || k["KeypairType"] != "ssh-rsa" {
		t.Errorf("the keypair is %v, and the private key's fingerprint %s", k, ssh.FingerprintLegacyMD5(public))
	}
	l.view(alice, func(tx *resource.Tx) {
		kept, err := keypairNamed(tx, "made")
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))); kept.PublicKey != want {
			t.Errorf("kept is %q, want %q", kept.PublicKey, want)
		}
		if doc, err := json.Marshal(kept); err != nil || strings.Contains(string(doc), "PRIVATE") {
			t.Errorf("kept is %s, %v", doc, err)
		}
	})
	shown := l.call(alice, "ReadKeypairs", nil)["Keypairs"].([]any)[0].(object)
	if _, ok := shown["PrivateKey"]; ok || shown["KeypairId"] != k["KeypairId"] {
		t.Errorf("it is shown as %v", shown)
	}
	again := l.one("Keypair", alice, "CreateKeypair", object{"KeypairName": "made too"})
	if again["KeypairFingerprint"] == k["KeypairFingerprint"] {
		t.Error("the same key was made twice")
	}
}

func TestImportedKeypairs(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	prints := fingerprints(t)
	imports := 0
	check := func(name, keyType, text string) {
		t.Helper()
		imports++
		k := l.one("Keypair", alice, "CreateKeypair", object{"KeypairName": name, "PublicKey": text})
		if k["KeypairType"] != keyType || k["KeypairFingerprint"] != prints[keyType] {
			t.Errorf("%s is %v, want a %s with the fingerprint %s", name, k, keyType, prints[keyType])
		}
		if _, ok := k["PrivateKey"]; ok {
			t.Errorf("%s has a private key", name)
		}
	}
	for file, text := range written(t) {
		keyType, form, _ := strings.Cut(file, ".")
		if prints[keyType] == "" {
			continue
		}
		check(file, keyType, text)
		check(file+", trimmed", keyType, strings.TrimSpace(text))
		check(file+", with carriage returns", keyType, strings.ReplaceAll(text, "\n", "\r\n"))
		check(file+", in Base64", keyType, base64.StdEncoding.EncodeToString([]byte(text)))
		if form != "openssh" {
			continue
		}
		check(file+", the key alone", keyType, strings.Fields(text)[1])
		public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(public.(ssh.CryptoPublicKey).CryptoPublicKey())
		if err != nil {
			t.Fatal(err)
		}
		check(file+", as DER in Base64", keyType, base64.StdEncoding.EncodeToString(der))
		check(file+", as DER in PEM", keyType, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	}
	if imports < 50 {
		t.Errorf("only %d imports", imports)
	}
}

func TestTheLineOfAKeypair(t *testing.T) {
	t.Parallel()
	keys := written(t)
	body := strings.Fields(keys["ssh-ed25519.openssh"])[1]
	for name, test := range map[string]struct{ text, comment string }{
		"a comment":              {"ssh-ed25519 " + body + " alice at home\n", " alice at home"},
		"no comment":             {"ssh-ed25519 " + body, ""},
		"a comment in RFC 4716":  {rfc4716Begin + "\nSubject: me\nComment: \"at \\\nhome\"\n" + body + "\n" + rfc4716End, " at home"},
		"what no line may have":  {base64.StdEncoding.EncodeToString([]byte("ssh-ed25519 " + body + " a\x00b\x1b[2Jc\u2028d")), " ab[2Jcd"},
		"a byte that is no text": {base64.StdEncoding.EncodeToString([]byte("ssh-ed25519 " + body + " a\xffb")), " a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := readPublicKey(test.text)
			if want := "ssh-ed25519 " + body + test.comment; err != nil || k.line() != want {
				t.Errorf("%q, %v, want %q", k.line(), err, want)
			}
		})
	}
}

func TestRefusedKeypairs(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	keys := written(t)
	ed := strings.TrimSpace(keys["ssh-ed25519.openssh"])
	huge, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 32767, 1), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	for name, test := range map[string]struct {
		text string
		code apierror.Code
	}{
		"no key":                     {"text", apierror.InvalidKey},
		"spaces":                     {"  ", apierror.InvalidKey},
		"a private key":              {secret, apierror.InvalidKey},
		"a private key in Base64":    {base64.StdEncoding.EncodeToString([]byte(secret)), apierror.InvalidKey},
		"DSA":                        {keys["refused-dsa.openssh"], apierror.InvalidKey},
		"RSA of 1024 bits":           {keys["refused-rsa-1024.openssh"], apierror.InvalidKeySize},
		"RSA of 32768 bits":          {base64.StdEncoding.EncodeToString(huge), apierror.InvalidKeySize},
		"two keys":                   {ed + "\n" + ed, apierror.InvalidKey},
		"a key after something else": {"hello\n" + ed, apierror.InvalidKey},
		"options":                    {`command="true" ` + ed, apierror.InvalidKey},
		"a key cut off":              {ed[:40], apierror.InvalidKey},
		"PEM cut off":                {keys["ssh-rsa.pem"][:200], apierror.InvalidKey},
		"PEM and more":               {keys["ssh-rsa.pem"] + "more", apierror.InvalidKey},
		"RFC 4716 cut off":           {keys["ssh-rsa.rfc4716"][:200], apierror.InvalidKey},
		"RFC 4716 of one line":       {rfc4716Begin, apierror.InvalidKey},
		"RFC 4716 without a key":     {rfc4716Begin + "\nComment: a\\\n" + rfc4716End, apierror.InvalidKey},
		"RFC 4716 of no key":         {rfc4716Begin + "\nAAAA\n" + rfc4716End, apierror.InvalidKey},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.try(alice, "CreateKeypair", object{"KeypairName": "name", "PublicKey": test.text})
			if !test.code.Is(err) {
				t.Fatalf("%v, want %s", err, test.code)
			}
			for _, line := range strings.Fields(test.text) {
				if len(line) > 20 && strings.Contains(err.Error(), line) {
					t.Errorf("it tells of the key: %v", err)
				}
			}
		})
	}
}

func TestKeypairNames(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	key := written(t)["ssh-ed25519.openssh"]
	printable := ""
	for c := ' '; c <= '~'; c++ {
		printable += string(c)
	}
	for name, test := range map[string]struct {
		name string
		code apierror.Code
	}{
		"short":               {"a", 0},
		"all that may be":     {printable, 0},
		"long":                {strings.Repeat("a", 255), 0},
		"taken by another":    {"bob's", 0},
		"too long":            {strings.Repeat("a", 256), apierror.InvalidKeypairName},
		"empty":               {"", apierror.InvalidKeypairName},
		"accents":             {"clé", apierror.InvalidKeypairName},
		"lines":               {"a\nb", apierror.InvalidKeypairName},
		"a control character": {"a\x7f", apierror.InvalidKeypairName},
		"taken":               {"mine", apierror.KeypairNameTaken},
	} {
		l.call(alice, "CreateKeypair", object{"KeypairName": "mine", "PublicKey": key})
		l.call(bob, "CreateKeypair", object{"KeypairName": "bob's", "PublicKey": key})
		_, err := l.try(alice, "CreateKeypair", object{"KeypairName": test.name, "PublicKey": key})
		if test.code == 0 && err != nil || test.code != 0 && !test.code.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
		l.call(alice, "DeleteKeypair", object{"KeypairName": "mine"})
		l.call(bob, "DeleteKeypair", object{"KeypairName": "bob's"})
	}
}

func TestDeleteKeypair(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	key := written(t)["ssh-ed25519.openssh"]
	ids := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		ids[name] = l.one("Keypair", alice, "CreateKeypair", object{"KeypairName": name, "PublicKey": key})["KeypairId"]
	}
	l.refused(apierror.MissingParameter, alice, "DeleteKeypair", object{})
	l.refused(apierror.MissingParameter, alice, "DeleteKeypair", object{"KeypairName": ""})
	l.refused(apierror.InvalidParameter, alice, "DeleteKeypair", object{"KeypairId": ids["a"], "KeypairName": "b"})
	l.refused(apierror.KeypairNotFound, alice, "DeleteKeypair", object{"KeypairName": "d"})
	l.refused(apierror.KeypairNotFound, bob, "DeleteKeypair", object{"KeypairName": "a"})
	l.refused(apierror.KeypairNotFound, bob, "DeleteKeypair", object{"KeypairId": ids["a"]})
	l.call(alice, "DeleteKeypair", object{"KeypairId": ids["a"]})
	l.call(alice, "DeleteKeypair", object{"KeypairName": "b"})
	l.call(alice, "DeleteKeypair", object{"KeypairId": ids["c"], "KeypairName": "c"})
	l.refused(apierror.KeypairNotFound, alice, "DeleteKeypair", object{"KeypairId": ids["a"]})
	if left := l.texts("KeypairName", "Keypairs", alice, "ReadKeypairs", nil); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestKeypairFilters(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	keys, prints := written(t), fingerprints(t)
	a := l.one("Keypair", alice, "CreateKeypair", object{"KeypairName": "a", "PublicKey": keys["ssh-ed25519.openssh"]})
	l.call(alice, "CreateKeypair", object{"KeypairName": "b", "PublicKey": keys["ssh-rsa.openssh"]})
	l.call(alice, "CreateKeypair", object{"KeypairName": "c", "PublicKey": keys["ssh-rsa.pem"]})
	for name, test := range map[string]struct {
		filters object
		want    []string
	}{
		"nothing":      {nil, []string{"a", "b", "c"}},
		"fingerprints": {object{"KeypairFingerprints": []any{prints["ssh-rsa"]}}, []string{"b", "c"}},
		"ids":          {object{"KeypairIds": []any{a["KeypairId"]}}, []string{"a"}},
		"names":        {object{"KeypairNames": []any{"c", "d", "a"}}, []string{"a", "c"}},
		"types":        {object{"KeypairTypes": []any{"ssh-ed25519"}}, []string{"a"}},
		"both":         {object{"KeypairTypes": []any{"ssh-rsa"}, "KeypairNames": []any{"a"}}, []string{}},
		"tags":         {object{"TagKeys": []any{"env"}}, []string{}},
	} {
		if got := l.texts("KeypairName", "Keypairs", alice, "ReadKeypairs", test.filters); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// Whatever is read as a key is one line that SSH reads as the same key.
func FuzzPublicKey(f *testing.F) {
	for _, text := range written(f) {
		f.Add(text)
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	f.Add(rfc4716Begin + "\nComment: a\\\nb\nx-more: c\n" + rfc4716End)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := readPublicKey(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(k.line(), "\r\n\x00") {
			t.Errorf("%q is no line", k.line())
		}
		again, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(k.line()))
		if err != nil || len(rest) > 0 || len(options) > 0 || ssh.FingerprintLegacyMD5(again) != ssh.FingerprintLegacyMD5(k) {
			t.Errorf("%q is read as another key: %v", k.line(), err)
		}
	})
}
