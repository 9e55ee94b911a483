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
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/kind"
	"github.com/bastide-cloud/bastide/internal/seal"
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

	PasswordHash string `json:"-"` // see [iam.NewAccount]
	AccessKey    string `json:"access_key"`
	SecretKey    string `json:"secret_key"`

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
	if err := checkRegion(ctx, db, o); !errors.Is(err, errNotFounded) {
		return nil, err
	}
	root := o.Root
	root.fill(o.Chance)
	// They are kept first, under a name that nobody reads yet: an account whose
	// secret was lost could not be used.
	if o.Data != "" {
		if err := root.keep(o.Data); err != nil {
			return nil, fmt.Errorf("keeping the root account's credentials: %w", err)
		}
	}
	err := db.Update(ctx, caller, func(tx *kind.Tx) error {
		if foundings.Has(tx, theFounding) {
			return errFounded
		}
		account, err := cloud.NewAccount(tx, facts, iam.NewAccount{
			AccountId: id.Account(root.AccountID), Email: root.Email, Password: root.Password, PasswordHash: root.PasswordHash,
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
	switch {
	case errors.Is(err, errFounded):
		// These credentials are nobody's.
		return nil, errors.Join(root.forget(), checkRegion(ctx, db, o))
	case err != nil:
		return nil, err
	}
	return &root, root.confirm()
}

// publish makes the images of the region's own what they shall be, at each start:
// the operator may have chosen others.
func publish(ctx context.Context, db *kind.DB, o Options) error {
	images := o.Images
	if images == nil {
		images = compute.PublicImages()
	}
	return db.Update(ctx, kind.Caller{Account: string(id.Outscale)}, func(tx *kind.Tx) error { return compute.Publish(tx, images) })
}

var (
	// errFounded ends a founding that another node was faster with.
	errFounded = errors.New("the region was founded meanwhile")
	// errNotFounded says that the store holds no region.
	errNotFounded = errors.New("no region was founded in this store")
)

// checkRegion makes sure that the store holds this region.
func checkRegion(ctx context.Context, db *kind.DB, o Options) error {
	var before *founding
	err := db.View(ctx, kind.Caller{Account: regionAccount}, func(tx *kind.Tx) (err error) {
		before = nil
		if foundings.Has(tx, theFounding) {
			before, err = foundings.Get(tx, theFounding)
		}
		return err
	})
	switch {
	case errors.Is(err, seal.ErrOther):
		return fmt.Errorf("the master key is wrong: the one in %s does not open what this region has sealed: start it with the key that it was founded with", o.keyFile())
	case err != nil:
		return fmt.Errorf("reading what region this is: %w", err)
	case before == nil:
		return errNotFounded
	case before.Region != o.Region:
		return fmt.Errorf("the store holds the region %s, not %s: start it with --region %s, or give another --data", before.Region, o.Region, before.Region)
	case o.Data == "":
		return nil
	}
	return recoverRoot(o.Data, before.RootAccount)
}

// recoverRoot gives its name to the file of credentials that a process kept
// that ended right after it had founded the region.
func recoverRoot(data string, account id.Account) error {
	kept, err := filepath.Glob(filepath.Join(data, RootFile+".*"))
	if err != nil {
		return err
	}
	for _, file := range kept {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		r := &Root{File: filepath.Join(data, RootFile)}
		if json.Unmarshal(text, r) == nil && r.AccountID == string(account) && r.unconfirmed() == file {
			return r.confirm()
		}
	}
	return nil
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

// keep writes the credentials where only the owner can read them, under a name
// that is not theirs yet.
func (r *Root) keep(data string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	r.File = filepath.Join(data, RootFile)
	f, err := os.OpenFile(r.unconfirmed(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}

// unconfirmed is the file until the account exists. Nodes that found a region
// at once may share the directory.
func (r *Root) unconfirmed() string { return r.File + "." + r.AccessKey }

// confirm gives the file its name: the account exists.
func (r *Root) confirm() error {
	if r.File == "" {
		return nil
	}
	return os.Rename(r.unconfirmed(), r.File)
}

// forget removes the file: the account was never made.
func (r *Root) forget() error {
	if r.File == "" {
		return nil
	}
	return os.Remove(r.unconfirmed())
}
