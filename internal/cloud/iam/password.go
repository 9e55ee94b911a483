package iam

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
)

// cost is what a guess costs an attacker who has stolen the hashes, and a
// login costs us.
type cost struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// today is the lowest cost that OWASP recommends for argon2id, and of those it
// gives the one with little memory: some 20 ms of one core, in 19 MiB, on a
// machine that does much else. A stored hash names its own cost, so this may
// be raised.
var today = cost{memory: 19 * 1024, passes: 2, threads: 1}

const (
	saltSize = 16
	hashSize = 32
)

// checks has a place for each password being checked. Strangers decide how
// many arrive at once; two at a time bound the memory they can take. Those that
// wait are bounded by who lets them in: the gate.
var checks = make(chan struct{}, 2)

// decoy is a hash that no password has.
var decoy = today.text(make([]byte, saltSize), make([]byte, hashSize))

// HashPassword makes the text that an account keeps of its password, in the
// PHC string format. It waits for nobody's check: it may be called in a
// transaction, for which others wait.
func HashPassword(random io.Reader, password string) string {
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(random, salt); err != nil {
		panic(fmt.Errorf("reading the random source: %w", err))
	}
	return today.text(salt, today.hash(password, salt))
}

// PasswordFits reports whether a password is the one of a stored hash. That takes as
// long if there is no hash, which is so for a login without a password and for one that
// does not exist: they cannot be told from a wrong password. The error is that of the
// context, if it ends before the check begins.
func PasswordFits(ctx context.Context, stored, password string) (bool, error) {
	if stored == "" {
		stored = decoy
	}
	c, salt, want, err := parseHash(stored)
	if err != nil {
		return false, nil
	}
	select {
	case checks <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-checks }()
	return subtle.ConstantTimeCompare(c.hash(password, salt), want) == 1, nil
}

func (c cost) hash(password string, salt []byte) []byte {
	return argon2.IDKey([]byte(password), salt, c.passes, c.memory, c.threads, hashSize)
}

// parameters is how the PHC string format writes a cost.
const parameters = "m=%d,t=%d,p=%d"

func (c cost) text(salt, hash []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$"+parameters+"$%s$%s",
		argon2.Version, c.memory, c.passes, c.threads, b64.EncodeToString(salt), b64.EncodeToString(hash))
}

func parseHash(text string) (c cost, salt, hash []byte, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, fmt.Errorf("not a password hash of argon2id")
	}
	if _, err = fmt.Sscanf(parts[3], parameters, &c.memory, &c.passes, &c.threads); err != nil {
		return c, nil, nil, fmt.Errorf("reading the cost of a password hash: %w", err)
	}
	if c.passes == 0 || c.threads == 0 {
		return c, nil, nil, fmt.Errorf("a password hash that costs nothing")
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return c, nil, nil, fmt.Errorf("reading the salt of a password hash: %w", err)
	}
	if hash, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil {
		return c, nil, nil, fmt.Errorf("reading a password hash: %w", err)
	}
	return c, salt, hash, nil
}
