package region

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
)

// A founding records that a region was founded, and how. It is stored in an
// internal account of the region.
type founding struct {
	FoundingId   resource.Name
	Region       string
	RootAccount  id.Account `ref:"-"`
	CreationDate api.DateTime
	// can be opened with the region's master key only, so that a start with
	// another key fails at once
	Sealed resource.Secret
}

var foundings = &resource.Kind[founding, resource.Name]{Name: "Founding"}

// The only founding, and its account: no customer's account ID has letters.
const (
	theFounding   resource.Name = "founding"
	regionAccount string        = "region"
)

// RootFile is the file of the root account's credentials in the data directory.
const RootFile = "root-credentials.json"

// Root is the root account of a region and its credentials.
type Root struct {
	AccountID string `json:"account_id"`
	Email     string `json:"email"`
	Password  string `json:"password"`

	PasswordHash string `json:"-"` // see [iam.NewAccount]
	AccessKey    string `json:"access_key"`
	SecretKey    string `json:"secret_key"`

	// Given has the names in the file of the secrets that the operator has
	// chosen. They are not shown.
	Given []string `json:"given,omitempty"`

	File string `json:"-"` // the file of the credentials; empty: none
}

// The names of secrets in the file.
const (
	rootPassword  = "password"
	rootSecretKey = "secret_key"
)

// String returns the text that is printed once after the founding.
func (r *Root) String() string {
	shown := func(name, secret string) string {
		if slices.Contains(r.Given, name) {
			return "(as given)"
		}
		return secret
	}
	return fmt.Sprintf("  account id  %s\n  email       %s\n  password    %s\n  access key  %s\n  secret key  %s",
		r.AccountID, r.Email, shown(rootPassword, r.Password), r.AccessKey, shown(rootSecretKey, r.SecretKey))
}

// ReadRoot reads the credentials in a data directory.
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

// found creates the root account of a region on an empty store. It returns nil
// if the region was founded before.
func found(ctx context.Context, db *resource.DB, facts catalog.Region, o Options) (*Root, error) {
	before, err := readFounding(ctx, db, o)
	if err != nil {
		return nil, err
	}
	if before != nil {
		return nil, before.check(o)
	}
	root := o.Root
	root.fill(o.Rand)
	// The credentials are written first, under a temporary name, because an
	// account whose secret is lost is useless.
	if o.Data != "" {
		if err := root.keep(o.Data); err != nil {
			return nil, fmt.Errorf("writing the root account's credentials: %w", errors.Join(err, root.forget()))
		}
	}
	complete := false
	err = db.Update(ctx, resource.Caller{Account: regionAccount}, func(tx *resource.Tx) error {
		complete = false
		if foundings.Has(tx, theFounding) {
			return errFounded
		}
		account, err := cloud.NewAccount(tx, facts, iam.NewAccount{
			AccountId: id.Account(root.AccountID), Email: root.Email, Password: root.Password, PasswordHash: root.PasswordHash,
			CompanyName: "Bastide", FirstName: "Root", LastName: "Account", City: "Bastide", Country: "France", ZipCode: "00000",
		})
		if err != nil {
			return fmt.Errorf("creating the root account: %w", err)
		}
		if _, err := iam.NewAccessKey(tx.In(root.AccountID), account.AccountId, root.AccessKey, root.SecretKey); err != nil {
			return fmt.Errorf("creating the root account's access key: %w", err)
		}
		err = foundings.Put(tx, &founding{
			FoundingId: theFounding, Region: o.Region, RootAccount: account.AccountId, CreationDate: api.At(tx.Now()), Sealed: "open",
		})
		complete = err == nil
		return err
	})
	switch {
	case err == nil:
		return &root, nil
	case complete:
		// The commit failed, but may have succeeded in the journal: then the
		// next start finds the credentials.
		return nil, err
	}
	if err := errors.Join(err, root.forget()); !errors.Is(err, errFounded) {
		return nil, err
	}
	if before, err = readFounding(ctx, db, o); err != nil {
		return nil, err
	}
	return nil, before.check(o)
}

// publish brings the region's own images up to date at each start, because the
// operator may have changed them.
func publish(ctx context.Context, db *resource.DB, o Options) error {
	images := o.Images
	if images == nil {
		images = compute.PublicImages()
	}
	return db.Update(ctx, resource.Caller{Account: string(id.Outscale)}, func(tx *resource.Tx) error { return compute.Publish(tx, images) })
}

// errFounded ends a founding because another node was faster.
var errFounded = errors.New("the region was founded meanwhile")

// readFounding returns the region's founding; nil: it was not founded.
func readFounding(ctx context.Context, db *resource.DB, o Options) (*founding, error) {
	var before *founding
	err := db.View(ctx, resource.Caller{Account: regionAccount}, func(tx *resource.Tx) (err error) {
		before = nil
		if foundings.Has(tx, theFounding) {
			before, err = foundings.Get(tx, theFounding)
		}
		return err
	})
	switch {
	case errors.Is(err, seal.ErrOther):
		return nil, fmt.Errorf("the master key is wrong: the one in %s does not open what this region has sealed: start it with "+
			"the key that it was founded with", o.keyFile())
	case err != nil:
		return nil, fmt.Errorf("reading the region's founding: %w", err)
	}
	return before, nil
}

// check returns an error if the store holds another region.
func (f *founding) check(o Options) error {
	if f.Region != o.Region {
		return fmt.Errorf("the store holds the region %s, not %s: start it with --region %s, or give another --data", f.Region, o.Region,
			f.Region)
	}
	return nil
}

// unshown returns the credentials of the root account if no start has shown
// them yet, because this is the founding or the founding process ended too
// early; nil otherwise. It removes the credentials of failed foundings.
func unshown(ctx context.Context, db *resource.DB, o Options) (*Root, error) {
	entries, err := os.ReadDir(o.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var root *Root
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), RootFile+".") {
			continue
		}
		before, err := readFounding(ctx, db, o)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(o.Data, e.Name())
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &Root{File: filepath.Join(o.Data, RootFile)}
		if json.Unmarshal(text, r) == nil && r.AccountID == string(before.RootAccount) && r.unconfirmed() == file {
			root = r
		} else if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// fill generates the fields that are empty.
func (r *Root) fill(random io.Reader) {
	for name, secret := range map[string]string{rootPassword: r.Password, rootSecretKey: r.SecretKey} {
		if secret != "" {
			r.Given = append(r.Given, name)
		}
	}
	slices.Sort(r.Given)
	for _, f := range []struct {
		to       *string
		length   int
		alphabet string
	}{
		{&r.AccountID, 12, resource.Decimal}, {&r.AccessKey, 20, resource.Alphanumeric}, {&r.SecretKey, 40, resource.Alphanumeric},
		{&r.Password, 24, resource.Alphanumeric + "abcdefghijklmnopqrstuvwxyz"},
	} {
		if *f.to == "" {
			*f.to = resource.Random(random, f.length, f.alphabet)
		}
	}
	if r.Email == "" {
		r.Email = "root@bastide.localhost"
	}
}

// keep writes the credentials to a file that only the owner can read, under a
// name that marks them as not shown yet.
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
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close(), syncFile(data))
}

// unconfirmed is the name of the file until the credentials were shown. It is
// unique, because nodes that found a region at once may share the directory.
func (r *Root) unconfirmed() string { return r.File + "." + r.AccessKey }

// Shown records that the operator has seen the credentials, so that no later
// start shows them.
func (r *Root) Shown() error {
	if r.File == "" {
		return nil
	}
	err := os.Rename(r.unconfirmed(), r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another node that shares the directory has shown them, too
	}
	return err
}

// forget removes the file of an account that was not created.
func (r *Root) forget() error {
	if r.File == "" {
		return nil
	}
	err := os.Remove(r.unconfirmed())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another node that shares the directory has removed it
	}
	return err
}
