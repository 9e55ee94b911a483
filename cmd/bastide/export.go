package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bastide-cloud/bastide/internal/export"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// place is the location of a store and of the key to its secrets.
type place struct {
	data, store, passwordFile, masterKey string // the flags

	dir string // of the embedded store, or of a node's files beside a database
}

func (p *place) flags(flags *flag.FlagSet) {
	flags.StringVar(&p.data, "data", "./bastide-data", "`DIR` of the embedded store")
	flags.StringVar(&p.store, "store", "", "`URL` of the store, as given to serve")
	flags.StringVar(&p.passwordFile, "store-password-file", "", "`FILE` with the password of a PostgreSQL database, as given to serve")
	flags.StringVar(&p.masterKey, "master-key", "", "`FILE` of the key that seals secrets at rest (default DIR/master.key)")
}

// open opens the store, which no running region may use, and finds the file of
// its key. It creates an embedded store that does not exist, if create is true.
func (p *place) open(ctx context.Context, create bool) (j store.Dumper, err error) {
	if isPostgres(p.store) {
		j, err = p.openPostgres(ctx)
	} else {
		j, err = p.openEmbedded(ctx, create)
	}
	if err != nil {
		return nil, err // and not a typed nil
	}
	if p.masterKey == "" {
		p.masterKey = filepath.Join(p.dir, "master.key")
	}
	return j, nil
}

func (p *place) openPostgres(ctx context.Context) (*sqljournal.Postgres, error) {
	p.dir = p.data
	password, err := readPassword(p.passwordFile)
	if err != nil {
		return nil, err
	}
	return sqljournal.OpenPostgres(ctx, p.store, sqljournal.After(time.After), sqljournal.Rand(rand.Reader), sqljournal.Password(password))
}

func (p *place) openEmbedded(ctx context.Context, create bool) (_ *sqljournal.SQLite, err error) {
	if p.dir, err = (&settings{data: p.data, store: p.store}).dataDir(); err != nil {
		return nil, err
	}
	if p.dir == "" {
		return nil, fmt.Errorf("--store: the content of %s ends with its process, so it can be neither exported nor imported", p.store)
	}
	if _, err := os.Stat(filepath.Join(p.dir, sqljournal.File)); !create && err != nil {
		return nil, fmt.Errorf("there is no region in %s: %w", p.dir, err)
	}
	j, err := sqljournal.Open(ctx, p.dir)
	if errors.Is(err, sqljournal.ErrInUse) {
		err = fmt.Errorf("%w: stop it first", err)
	}
	return j, err
}

// exportStore writes all rows of a store as lines of JSON.
func exportStore(ctx context.Context, args []string, out, messages io.Writer) (err error) {
	var from place
	var secrets bool
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	from.flags(flags)
	flags.BoolVar(&secrets, "with-secrets", false, "write secrets as they are, not sealed with the master key")
	file, err := parseWith("file", flags, args, messages)
	if err != nil {
		return err
	}
	journal, err := from.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	header := export.Header{Time: time.Now().UTC().Truncate(time.Second), Secrets: export.Sealed}
	if header.Region, err = region.NameIn(ctx, journal); err != nil {
		return err
	}
	if header.Region == "" {
		return errors.New("no region was founded in this store")
	}
	var recode *export.Recoder
	if secrets {
		key, err := seal.Load(from.masterKey, false, rand.Reader)
		if err != nil {
			return err
		}
		header.Secrets = export.Open
		recode = export.NewRecoder(resource.Codecs(region.Kinds(), key), resource.Codecs(resource.WithSecrets(region.Kinds()), resource.AsIs))
	}
	total, err := journal.Count(ctx)
	if err != nil {
		return err
	}
	p := newProgress(messages, "exporting", int64(total), time.Now)
	var totals export.Totals
	err = writeWhole(file, out, func(w io.Writer) (err error) {
		totals, err = export.Write(w, header, p.watch(journal.Dump(ctx), nil), recode)
		return err
	})
	p.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(messages, "Exported %s of the region %s.\n", totals, header.Region)
	if secrets {
		fmt.Fprintln(messages, "Its secrets are in plain text: keep the export as safe as they are.")
	} else {
		fmt.Fprintf(messages, "Its secrets are sealed: an import needs the master key %s, too.\n", from.masterKey)
	}
	return nil
}

// writeWhole writes a file atomically, readable by its owner only. An empty
// name and a dash stand for the output.
func writeWhole(name string, out io.Writer, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(out)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: give a dash and redirect the output there", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
