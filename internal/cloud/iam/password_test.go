package iam

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	hash := HashPassword(random, "s3cret")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s", hash)
	}
	if hash == HashPassword(random, "s3cret") {
		t.Error("two hashes of one password are the same: no salt")
	}
	stronger := cost{memory: 64, passes: 3, threads: 2}
	salt := []byte("some salt")
	for name, c := range map[string]struct {
		hash, password string
		want           bool
	}{
		"right":                  {hash, "s3cret", true},
		"wrong":                  {hash, "s3cres", false},
		"empty":                  {hash, "", false},
		"of another cost":        {stronger.text(salt, stronger.hash("s3cret", salt)), "s3cret", true},
		"wrong, of another cost": {stronger.text(salt, stronger.hash("s3cret", salt)), "x", false},
		"no password":            {"", "", false},
		"of another algorithm":   {strings.Replace(hash, "argon2id", "argon2i", 1), "s3cret", false},
		"costs nothing":          {strings.Replace(hash, "t=2", "t=0", 1), "s3cret", false},
		"no cost":                {strings.Replace(hash, "m=19456,t=2,p=1", "", 1), "s3cret", false},
		"cut":                    {hash[:strings.LastIndex(hash, "$")], "s3cret", false},
		"salt not base64":        {strings.Replace(hash, "p=1$", "p=1$*", 1), "s3cret", false},
		"hash not base64":        {hash + "*", "s3cret", false},
		"hash too short":         {hash[:len(hash)-8], "s3cret", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := PasswordFits(t.Context(), c.hash, c.password); got != c.want || err != nil {
				t.Errorf("PasswordFits(%q) with %q is %v, %v", c.password, c.hash, got, err)
			}
		})
	}
}

func TestDecoyCostsWhatAHashCosts(t *testing.T) {
	t.Parallel()
	c, salt, hash, err := parseHash(decoy)
	if err != nil || c != today || len(salt) != saltSize || len(hash) != hashSize {
		t.Errorf("the decoy %s reads as %+v, %d, %d, %v", decoy, c, len(salt), len(hash), err)
	}
}

// A transaction holds up all others, so hashing must not wait for logins. And a
// client that hangs up while it waits for others waits no longer.
func TestWhileOthersAreChecked(t *testing.T) {
	for range cap(checks) {
		checks <- struct{}{}
	}
	defer func() {
		for range cap(checks) {
			<-checks
		}
	}()
	HashPassword(rand.NewChaCha8([32]byte{}), "s3cret")
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	for name, hash := range map[string]string{"a password": decoy, "none": ""} {
		if fits, err := PasswordFits(ctx, hash, "s3cret"); fits || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: PasswordFits is %v, %v for a client that has hung up", name, fits, err)
		}
	}
}

func TestAccountWithPassword(t *testing.T) {
	t.Parallel()
	r := setup(t)
	with := r.newAccount(NewAccount{Email: "with@example.com", Password: "s3cret"})
	r.as(with, "").view(func(tx *resource.Tx) {
		a, err := accountOf(tx)
		if err != nil {
			t.Fatal(err)
		}
		for password, want := range map[string]bool{"s3cret": true, "other": false} {
			if fits, err := PasswordFits(t.Context(), a.PasswordHash, password); fits != want || err != nil {
				t.Errorf("PasswordFits(%q) is %v, %v", password, fits, err)
			}
		}
	})
	if fits, err := PasswordFits(t.Context(), r.account.PasswordHash, ""); fits || err != nil {
		t.Errorf("an account without a password logs in with an empty one: %v, %v", fits, err)
	}
}
