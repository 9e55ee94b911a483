package region

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// A founding says that a region was founded, and how. It is kept in an account
// of the region's own.
type founding struct {
	FoundingId   foundingID
	Region       string
	RootAccount  id.Account `ref:"-"`
	CreationDate api.DateTime
	Sealed       kind.Secret // opens only with the region's master key, so that a start with another one fails at once
}

type foundingID string

// Form is not that of any id on the wire.
func (foundingID) Form() kind.Form { return kind.Form{} }

var foundings = &kind.Kind[founding, foundingID]{Name: "Founding"}

// The one founding, and the account it is in: no customer's account id has
// letters.
const (
	theFounding   foundingID = "founding"
	regionAccount            = "region"
)

// RootFile is where the root account's credentials are kept in the data
// directory.
const RootFile = "root-credentials.json"

// Root is the root account of a region and its credentials.
type Root struct {
	AccountID string `json:"account_id"`
	Email     string `json:"email"`
	Password  string `json:"password"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`

	File string `json:"-"` // where they are kept; empty: nowhere
}

// String is the root account as a start shows it, once.
func (r *Root) String() string {
	return fmt.Sprintf("  account id  %s\n  email       %s\n  password    %s\n  access key  %s\n  secret key  %s",
		r.AccountID, r.Email, r.Password, r.AccessKey, r.SecretKey)
}

// ReadRoot reads the credentials kept in a data directory.
func ReadRoot(data string) (*Root, error) {
	text, err := os.ReadFile(filepath.Join(data, RootFile))
	if err != nil {
		return nil, err
	}
	var r Root
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(data, RootFile), err)
	}
	return &r, nil
}

// found makes the root account of a region on an empty store. It answers nil
// if the region was founded before.
func found(ctx context.Context, db *kind.DB, facts catalog.Region, o Options) (*Root, error) {
	caller := kind.Caller{Account: regionAccount}
	var before *founding
	err := db.View(ctx, caller, func(tx *kind.Tx) error {
		if foundings.Has(tx, theFounding) {
			before, _ = foundings.Get(tx, theFounding)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if before != nil {
		if before.Region != o.Region {
			return nil, fmt.Errorf("the store holds the region %s, not %s: start it with --region %s, or give another --data", before.Region, o.Region, before.Region)
		}
		return nil, nil
	}
	root := o.Root
	root.fill(o.Chance)
	// The file comes first: credentials that were kept and never used do no
	// harm, while an account whose secret was lost cannot be used.
	if o.Data != "" {
		if err := root.keep(o.Data); err != nil {
			return nil, fmt.Errorf("keeping the root account's credentials: %w", err)
		}
	}
	return &root, db.Update(ctx, caller, func(tx *kind.Tx) error {
		account, err := cloud.NewAccount(tx, facts, iam.NewAccount{
			AccountId: id.Account(root.AccountID), Email: root.Email, Password: root.Password,
			CompanyName: "Bastide", FirstName: "Root", LastName: "Account", City: "Bastide", Country: "France", ZipCode: "00000",
		})
		if err != nil {
			return fmt.Errorf("making the root account: %w", err)
		}
		if _, err := iam.NewAccessKey(tx.In(root.AccountID), account.AccountId, root.AccessKey, root.SecretKey); err != nil {
			return fmt.Errorf("making the root account's access key: %w", err)
		}
		return foundings.Put(tx, &founding{
			FoundingId: theFounding, Region: o.Region, RootAccount: account.AccountId, CreationDate: api.At(tx.Now()), Sealed: "open",
		})
	})
}

// fill generates what was not given.
func (r *Root) fill(chance io.Reader) {
	for _, f := range []struct {
		to       *string
		length   int
		alphabet string
	}{
		{&r.AccountID, 12, kind.Decimal}, {&r.AccessKey, 20, kind.Alphanumeric}, {&r.SecretKey, 40, kind.Alphanumeric},
		{&r.Password, 24, kind.Alphanumeric + "abcdefghijklmnopqrstuvwxyz"},
	} {
		if *f.to == "" {
			*f.to = kind.Random(chance, f.length, f.alphabet)
		}
	}
	if r.Email == "" {
		r.Email = "root@bastide.localhost"
	}
}

// keep writes the credentials where only the owner can read them.
func (r *Root) keep(data string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	r.File = filepath.Join(data, RootFile)
	f, err := os.OpenFile(r.File, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}
